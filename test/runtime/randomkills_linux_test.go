package runtime

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"porthole.dev/porthole/internal/testkit/wait"
)

// TestRandomKills kills programs at any moment of a pod's life, from when HCS has its sandbox on: TestContainers/steps
// does at the ends of calls, and much of what calls do is in between. Afterwards nothing of the pod is left.
func TestRandomKills(t *testing.T) {
	n, err := strconv.Atoi(os.Getenv("PORTHOLE_RUNTIME_KILLS"))
	if err != nil {
		t.Skip("never takes the same way twice: PORTHOLE_RUNTIME_KILLS=30")
	}
	p := buildPrograms(t)
	w := faultCases{containers{p.newWorld(t, "20348")}}
	w.useRegistry()
	if _, err := w.images.PullImage(call(t),
		&runtimeapi.PullImageRequest{Image: &runtimeapi.ImageSpec{Image: testImage}}); err != nil {
		t.Fatal(err)
	}
	w.useNetwork()
	w.usePause(t)
	programs := []string{hcsdProgram, containerdProgram, kernelProgram}
	for i := range n {
		// until the sandbox runs, on a machine that does nothing else
		moment := time.Duration(rand.IntN(200)) * time.Millisecond
		if i%2 > 0 {
			moment *= 6 // until the pod is removed
		}
		t.Run(fmt.Sprint(i), func(t *testing.T) { w.testRandomKill(t, programs[i%len(programs)], moment) })
	}
}

func (w faultCases) testRandomKill(t *testing.T, program string, moment time.Duration) {
	before := w.everything(t)
	p, do, giveUp := w.newLife(t, "random")
	defer giveUp()
	ended := make(chan string, 1)
	go func() {
		for _, part := range parts {
			if part == "end" {
				continue
			}
			if err := do[part](); err != nil {
				ended <- part + ": " + err.Error()
				return
			}
		}
		ended <- "nothing is wrong"
	}()

	wait.True(t, 30*time.Second, "HCS has a system", func() bool {
		systems, err := filepath.Glob(filepath.Join(w.dir, "hosts", w.name, "hcs", "systems", "*"))
		return err == nil && len(systems) > 0
	})
	time.Sleep(moment)
	w.kill(t, program)
	w.answers(t)
	select {
	case said := <-ended:
		t.Logf("%s killed after %v: %s", program, moment, said)
	case <-time.After(20 * time.Second):
		t.Logf("%s killed after %v: a call has not ended", program, moment)
	}
	giveUp()
	w.removeNamed(t, p.config.Metadata.Uid)
	w.isAsBefore(t, before, "")
}
