package destination

import (
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// ParsePath reads a destinations file, or a folder of them (*.yaml and *.yml,
// not the hidden ones and not those of folders below) as one.
func ParsePath(path string) (*File, error) {
	sources, err := readPath(path)
	if err != nil {
		return nil, err
	}
	return parseSources(sources)
}

// Sum tells whether what ParsePath reads has changed, without parsing it.
func Sum(path string) ([sha256.Size]byte, error) {
	sources, err := readPath(path)
	if err != nil {
		return [sha256.Size]byte{}, err
	}
	return sum(sources), nil
}

func sum(sources []source) [sha256.Size]byte {
	h := sha256.New()
	for _, s := range sources {
		fmt.Fprintf(h, "%d %s %d ", len(s.name), s.name, len(s.data))
		h.Write(s.data)
	}
	return [sha256.Size]byte(h.Sum(nil))
}

func readPath(path string) ([]source, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("destinations: %w", err)
	}
	if !info.IsDir() {
		data, err := readBounded(path, maxFileBytes)
		if err != nil {
			return nil, err
		}
		return []source{{path, data}}, nil
	}
	return readFolder(path)
}

func readFolder(folder string) ([]source, error) {
	folder, err := snapshot(folder)
	if err != nil {
		return nil, fmt.Errorf("destinations: %w", err)
	}
	names, err := yamlNames(folder)
	if err != nil {
		return nil, fmt.Errorf("destinations: %w", err)
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("destinations: no *.yaml or *.yml in the folder %s", folder)
	}
	var sources []source
	left := maxFileBytes // for all together: they are one file in several parts
	for _, name := range names {
		data, err := readBounded(filepath.Join(folder, name), left)
		if err != nil {
			return nil, err
		}
		left -= len(data)
		sources = append(sources, source{name, data})
	}
	return sources, nil
}

// snapshot follows the link that a mounted ConfigMap swaps as a whole, so that
// files of two versions are never read together.
func snapshot(folder string) (string, error) {
	data := filepath.Join(folder, "..data")
	if isFolder(data) {
		return filepath.EvalSymlinks(data)
	}
	return folder, nil
}

func isFolder(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// yamlNames lists the files of a folder that count, sorted.
func yamlNames(folder string) ([]string, error) {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		name := e.Name()
		if ext := filepath.Ext(name); strings.HasPrefix(name, ".") || ext != ".yaml" && ext != ".yml" {
			continue
		}
		info, err := os.Stat(filepath.Join(folder, name))
		if err != nil {
			return nil, err
		}
		if info.Mode().IsRegular() {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names, nil
}

func readBounded(path string, most int) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("destinations: %w", err)
	}
	defer func() { _ = f.Close() }() // it was only read
	data, err := io.ReadAll(io.LimitReader(f, int64(most)+1))
	if err != nil {
		return nil, fmt.Errorf("destinations: %w", err)
	}
	if len(data) > most {
		return nil, tooLarge("what "+filepath.Base(path)+" makes in all", maxFileBytes)
	}
	return data, nil
}
