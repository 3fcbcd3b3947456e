package wine

import "testing"

func TestIsLower(t *testing.T) {
	const mountinfo = "24 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw\n" +
		"90 24 0:41 / /d/hosts/win01/prefix rw,relatime - overlay overlay rw,lowerdir=/d/wine/programs:/d/wine/template,upperdir=/d/upper,workdir=/d/work\n" +
		"91 24 0:42 / /d/hosts/other/prefix rw,relatime - overlay overlay rw,lowerdir=/d/wine/old,upperdir=/d/upper2,workdir=/d/work2\n"
	for dir, want := range map[string]bool{"/d/wine/programs": true, "/d/wine/template": true, "/d/wine/old": true,
		"/d/wine": false, "/d/wine/temp": false, "/d/upper": false} {
		if got := isLower(mountinfo, dir); got != want {
			t.Errorf("isLower(%s) = %v, want %v", dir, got, want)
		}
	}
}
