package e2e

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"os"
	"regexp"
	"runtime"
	"strconv"
	"testing"
	"time"
)

// wallClock is the wall clock of one process, which the test may set while all
// others and the monotonic clock go on. Go asks the kernel's page of code in
// the process (vDSO), where no library reaches: so that page is changed, of which
// each process that is written to has a copy of its own.
type wallClock struct {
	memory *os.File // of the process
	offset int64    // where its code finds how many seconds are added
}

// offsetClock is clock_gettime by a system call, with the seconds that follow
// it added to the wall clock's.
var offsetClock = []byte{
	0xb8, 0xe4, 0, 0, 0, // mov eax, 228 (clock_gettime; edi and rsi are the caller's)
	0x0f, 0x05, // syscall
	0x85, 0xff, // test edi, edi (CLOCK_REALTIME is 0)
	0x75, 0x0a, // jne to ret
	0x48, 0x8b, 0x0d, 6, 0, 0, 0, // mov rcx, [rip+6]
	0x48, 0x01, 0x0e, // add [rsi], rcx
	0xc3, // ret
	0, 0, // so that the seconds are aligned
	0, 0, 0, 0, 0, 0, 0, 0, // the seconds
}

var vdsoLine = regexp.MustCompile(`(?m)^([0-9a-f]+)-([0-9a-f]+) r-xp .*\[vdso\]$`)

// takeWallClock puts the wall clock of a process into the test's hands. The
// test is skipped where that is not known to work.
func takeWallClock(t testing.TB, p *process) *wallClock {
	t.Helper()
	if runtime.GOARCH != "amd64" {
		t.Skip("the wall clock of one process is set by machine code, which is here for amd64 only")
	}
	p.freeze(t) // nobody is asking for the time meanwhile
	defer p.thaw(t)
	m := vdsoLine.FindStringSubmatch(readFile(t, fmt.Sprintf("/proc/%d/maps", p.cmd.Process.Pid)))
	if m == nil {
		t.Skip("the kernel gives processes no vDSO")
	}
	begin, end := address(t, m[1]), address(t, m[2])
	memory, err := os.OpenFile(fmt.Sprintf("/proc/%d/mem", p.cmd.Process.Pid), os.O_RDWR, 0)
	if err != nil {
		t.Skipf("the memory of a child may not be written: %v", err)
	}
	t.Cleanup(func() { memory.Close() })
	image := make([]byte, end-begin)
	if _, err := memory.ReadAt(image, begin); err != nil {
		t.Fatal(err)
	}
	entry, room := inVDSO(t, image)
	jump := binary.LittleEndian.AppendUint32([]byte{0xe9}, uint32(int32(room-entry-5)))
	if _, err := memory.WriteAt(offsetClock, begin+room); err != nil {
		t.Skipf("the vDSO of a child may not be written: %v", err)
	}
	if _, err := memory.WriteAt(jump, begin+entry); err != nil {
		t.Fatal(err)
	}
	return &wallClock{memory: memory, offset: begin + room + int64(len(offsetClock)) - 8}
}

// set puts the clock off by whole seconds from the true time, from now on.
func (c *wallClock) set(t testing.TB, offset time.Duration) {
	t.Helper()
	if _, err := c.memory.WriteAt(binary.LittleEndian.AppendUint64(nil, uint64(offset/time.Second)), c.offset); err != nil {
		t.Fatal(err)
	}
}

// inVDSO finds clock_gettime in the kernel's page and room for ours behind its end.
func inVDSO(t testing.TB, image []byte) (entry, room int64) {
	t.Helper()
	f, err := elf.NewFile(bytes.NewReader(image))
	if err != nil {
		t.Fatal(err)
	}
	symbols, err := f.DynamicSymbols()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range symbols {
		if s.Name == "__vdso_clock_gettime" {
			entry = int64(s.Value)
		}
	}
	used := bytes.LastIndexFunc(image, func(r rune) bool { return r != 0 }) + 1
	room = int64(used+64) / 16 * 16
	if entry == 0 || room+int64(len(offsetClock)) > int64(len(image)) {
		t.Skip("the vDSO of this kernel has no room for more code")
	}
	return entry, room
}

func address(t testing.TB, hex string) int64 {
	t.Helper()
	n, err := strconv.ParseInt(hex, 16, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}
