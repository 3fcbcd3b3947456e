package platform

import (
	"slices"
	"testing"
)

func TestMountPoints(t *testing.T) {
	const table = `22 27 0:21 / /proc rw,nosuid shared:12 - proc proc rw
27 0 8:1 / / rw - ext4 /dev/sda1 rw

40 27 0:35 / /a\040b\134c\011d rw - tmpfs tmpfs rw
41 27 0:36 / /proc rw - tmpfs tmpfs rw
`
	if got, want := mountPoints(table), []string{"/proc", "/", "/a b\\c\td", "/proc"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if all, err := MountPoints(); err != nil || !slices.Contains(all, "/proc") {
		t.Errorf("%q, %v", all, err)
	}
}
