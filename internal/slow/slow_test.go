package slow

import (
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// TestLimit: a timeout is as long as the variable says, and never shorter than usual. The variable is read
// once, so each value has a process of its own.
func TestLimit(t *testing.T) {
	if os.Getenv("SLOW_TEST") != "" {
		os.Stdout.WriteString("limit " + Limit(3*time.Second).String() + "\n")
		return
	}
	for value, want := range map[string]string{"": "3s", "10": "30s", "1.5": "4.5s", "0.5": "3s", "much": "3s"} {
		c := exec.Command(os.Args[0], "-test.run=^TestLimit$")
		c.Env = append(os.Environ(), "SLOW_TEST=1", Variable+"="+value)
		out, err := c.Output()
		if err != nil || !strings.HasPrefix(string(out), "limit "+want+"\n") {
			t.Errorf("%s=%s: %v, %s; want %s", Variable, value, err, out, want)
		}
	}
}
