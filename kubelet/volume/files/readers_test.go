package files

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestReadersDuringUpdates: a hundred programs read a volume while its files are replaced again and again. ..data, the
// files behind it and the links to them are always there, and no file is ever empty, cut, or put together of two
// versions.
// Row 1.92.
func TestReadersDuringUpdates(t *testing.T) {
	const readers, updates, limit = 100, 100, 4 * time.Second
	dir := t.TempDir()
	write := func(n int) error {
		text := []byte(strings.Repeat(fmt.Sprintf("version %06d\n", n), 300))
		_, err := Write(dir, Content{"a": {Data: text}, "sub/b": {Data: text}}, Access{})
		return err
	}
	if err := write(0); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Readlink(filepath.Join(dir, dataLink)); err != nil {
		t.Skipf("no links here, so that files are replaced one by one: %v", err)
	}

	check := func(name string) error {
		_, link := os.Lstat(filepath.Join(dir, dataLink))
		data, err := os.ReadFile(filepath.Join(dir, name))
		// the files of before went while the path was being followed, as with upstream's writer
		if errors.Is(err, fs.ErrNotExist) {
			data, err = os.ReadFile(filepath.Join(dir, name))
		}
		if err := errors.Join(link, err); err != nil {
			return err
		}
		lines := strings.Split(string(data), "\n")
		if len(lines) != 301 || strings.Count(string(data), lines[0]) != 300 {
			return fmt.Errorf("%s is half written: %d lines, the first is %q", name, len(lines), lines[0])
		}
		return nil
	}

	begin, n, failed := time.Now(), 0, make(chan error, readers*updates)
	for ; n < updates && time.Since(begin) < limit; n++ {
		var wg sync.WaitGroup
		for i := range readers {
			wg.Go(func() {
				if err := check([]string{"a", "sub/b", dataLink + "/a", dataLink + "/sub/b"}[i%4]); err != nil {
					failed <- err
				}
			})
		}
		if err := write(n + 1); err != nil {
			t.Error(err)
		}
		wg.Wait()
	}

	t.Logf("%d updates", n)
	if bad := len(failed); bad > 0 {
		t.Errorf("%d of %d reads failed, the first with: %v", bad, n*readers, <-failed)
	}
}
