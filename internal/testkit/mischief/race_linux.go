package mischief

import (
	"flag"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

var raceFor = flag.Duration("race-for", 3*time.Second, "how long each race lasts")

// Fewer calls than these are no race. On a busy machine Race goes on until there are enough.
const fewestSwaps, fewestTries = 1000, 5

// Race calls swap in one goroutine and try in another, again and again, for raceFor. It returns how often each ran.
func Race(t *testing.T, swap func(i int), try func(i int)) (swaps, tries int) {
	t.Helper()
	var stop atomic.Bool
	var swapped atomic.Int64
	var attacker sync.WaitGroup
	attacker.Go(func() {
		for !stop.Load() {
			swap(int(swapped.Add(1)) - 1)
		}
	})

	end := time.Now().Add(*raceFor)
	limit := time.Now().Add(20 * *raceFor)
	enough := func() bool { return time.Now().After(end) && tries >= fewestTries && swapped.Load() >= fewestSwaps }
	for ; !enough() && time.Now().Before(limit) && !t.Failed(); tries++ {
		try(tries)
	}
	stop.Store(true)
	attacker.Wait()

	swaps = int(swapped.Load())
	if swaps < fewestSwaps || tries < fewestTries {
		t.Errorf("only %d swaps beside %d tries: that is no race", swaps, tries)
	}
	return swaps, tries
}

// Outside makes a folder with secrets, which are outside of what is worked on.
func Outside(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "sub"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"secret", "sub/secret"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("SECRET"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// Unharmed checks that nothing was added to, removed from or changed in a folder that Outside made.
func Unharmed(t *testing.T, dir string) {
	t.Helper()
	for name, want := range map[string]int{".": 2, "sub": 1} {
		entries, err := os.ReadDir(filepath.Join(dir, name))
		if err != nil || len(entries) != want {
			t.Errorf("outside, %s: %v %v", name, entries, err)
		}
	}
	for _, name := range []string{"secret", "sub/secret"} {
		info, err := os.Stat(filepath.Join(dir, name))
		data, err2 := os.ReadFile(filepath.Join(dir, name))
		if err != nil || err2 != nil || string(data) != "SECRET" || info.Mode().Perm() != 0o600 {
			t.Errorf("outside, %s: %q %v %v %v", name, data, info, err, err2)
		}
	}
}
