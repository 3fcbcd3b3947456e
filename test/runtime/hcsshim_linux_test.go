package runtime

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

// hcsshimTable says of each package how many of its tests pass, "| package | passed |", and what becomes of the others,
// "| package test | result | reason |".
const hcsshimTable = "../../docs/evidence/hcsshim-tests.md"

var (
	hcsshimPassed = regexp.MustCompile(`(?m)^\| (\S+) \| (\d+) \|`)
	hcsshimOther  = regexp.MustCompile(`(?m)^\| (\S+ Test\w+) \| (FAIL|SKIP) \|`)
)

// TestHcsshim runs hcsshim's own tests of the packages that runhcs consists of on a host, and compares what they say
// with docs/evidence/hcsshim-tests.md.
func TestHcsshim(t *testing.T) {
	if os.Getenv("PORTHOLE_RUNTIME") != "long" {
		t.Skip("takes minutes: PORTHOLE_RUNTIME=long, or `make test-runtime`")
	}
	focus := os.Getenv("PORTHOLE_HCSSHIM_FOCUS")
	programs, err := filepath.Glob("../../bin/bundle/windows/hcsshim/" + focus + "*.test.exe")
	if err != nil || len(programs) == 0 {
		t.Fatalf("no tests of hcsshim: %v (run `make hcsshim-suite`)", err)
	}
	w := buildPrograms(t).newWorld(t, "20348")

	got := map[string]string{}
	for _, program := range programs {
		name := strings.TrimSuffix(filepath.Base(program), ".test.exe")
		output := runTests(w, 2*time.Minute, program, "-test.timeout=110s")
		passed := 0
		for test, result := range suiteResults(output) {
			if result == "PASS" {
				passed++
				continue
			}
			got[name+" "+test] = result
		}
		got[name] = strconv.Itoa(passed)
		if failed := strings.Contains(output, "FAIL"); failed {
			t.Logf("%s says:\n%s", name, output)
		}
	}

	table, err := os.ReadFile(hcsshimTable)
	if err != nil {
		t.Fatal(err)
	}
	want := rows(hcsshimPassed, table)
	for test, result := range rows(hcsshimOther, table) {
		want[test] = result
	}
	compareResults(t, comparison{hcsshimTable, want, got, focus == ""})
}
