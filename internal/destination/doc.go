// Package destination owns the contracts of destinations: their fields, units,
// defaults and bounds, and how they are read from a destinations file or from
// the API.
//
// Whatever is read goes through the same three steps. A reader turns YAML or
// JSON into a tree of values that remember where they were written; layers
// (defaults, class, destination) are merged as trees; a decoder turns the
// merged tree into a Contract and reports every problem at once. A field whose
// part is not built yet is refused by name, never accepted and ignored.
package destination
