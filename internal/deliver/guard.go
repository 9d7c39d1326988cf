package deliver

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"syscall"
)

var (
	errBlocked    = errors.New("the address is not public")
	errNotPrivate = errors.New("without TLS only private addresses are dialled that --allow-private-targets names")
)

// notPublic lists what a destination may not resolve to. Ranges that carry an
// IPv4 address inside are closed as a whole: what they lead to is decided by
// somebody else's translator.
var notPublic = parsePrefixes(
	"0.0.0.0/8",        // this network, unspecified
	"10.0.0.0/8",       // private
	"100.64.0.0/10",    // carrier-grade NAT
	"127.0.0.0/8",      // loopback
	"168.63.129.16/32", // public by number; Azure's host of a virtual machine
	"169.254.0.0/16",   // link-local, cloud metadata
	"172.16.0.0/12",    // private
	"192.0.0.0/24",     // protocol assignments
	"192.0.2.0/24",     // documentation
	"192.88.99.0/24",   // 6to4 relays
	"192.168.0.0/16",   // private
	"198.18.0.0/15",    // benchmarks
	"198.51.100.0/24",  // documentation
	"203.0.113.0/24",   // documentation
	"224.0.0.0/4",      // multicast
	"240.0.0.0/4",      // reserved, broadcast
	"::/96",            // unspecified, loopback, IPv4-compatible
	"::ffff:0:0:0/96",  // IPv4-translated
	"64:ff9b::/96",     // NAT64
	"64:ff9b:1::/48",   // local NAT64
	"100::/64",         // discard
	"2001::/23",        // protocol assignments, Teredo, ORCHID
	"2001:db8::/32",    // documentation
	"2002::/16",        // 6to4
	"3fff::/20",        // documentation
	"5f00::/16",        // segment routing
	"fc00::/7",         // unique local, cloud metadata
	"fe80::/10",        // link-local
	"fec0::/10",        // site-local
	"ff00::/8",         // multicast
)

func parsePrefixes(list ...string) []netip.Prefix {
	ps := make([]netip.Prefix, len(list))
	for i, s := range list {
		ps[i] = netip.MustParsePrefix(s)
	}
	return ps
}

// mayDial says whether an address is public or explicitly allowed.
func mayDial(a netip.Addr, allow []netip.Prefix) bool {
	a = a.Unmap().WithZone("")
	return a.IsValid() && (within(a, allow) || !within(a, notPublic))
}

func within(a netip.Addr, list []netip.Prefix) bool {
	for _, p := range list {
		if p.Contains(a) {
			return true
		}
	}
	return false
}

// dialer makes connections to addresses that may be dialled, and to no others.
func (s *Sender) dialer() *net.Dialer {
	return &net.Dialer{ControlContext: guard(s.cfg.AllowPrivate)}
}

// privateGuard lets pass what is not public and explicitly allowed.
func privateGuard(allow []netip.Prefix) func(context.Context, string, string, syscall.RawConn) error {
	return func(_ context.Context, _, address string, _ syscall.RawConn) error {
		ap, err := netip.ParseAddrPort(address)
		a := ap.Addr().Unmap().WithZone("")
		if err != nil || !within(a, allow) || !within(a, notPublic) {
			return errNotPrivate
		}
		return nil
	}
}

// guard checks the address that is really dialled, after every lookup, so that
// a name which changes its mind between two lookups gains nothing.
func guard(allow []netip.Prefix) func(context.Context, string, string, syscall.RawConn) error {
	return func(_ context.Context, _, address string, _ syscall.RawConn) error {
		ap, err := netip.ParseAddrPort(address)
		if err != nil || !mayDial(ap.Addr(), allow) {
			return errBlocked
		}
		return nil
	}
}
