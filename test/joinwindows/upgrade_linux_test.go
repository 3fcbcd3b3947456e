package joinwindows

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"porthole.dev/porthole/internal/platform"
	"porthole.dev/porthole/internal/testkit"
	"porthole.dev/porthole/internal/testkit/wait"
	"porthole.dev/porthole/join/step"
	"porthole.dev/porthole/join/upgrade"
)

// upgrader is a joined host whose programs are exchanged.
type upgrader struct{ *host }

// unpack puts an archive of another version into a folder of C:. Bytes behind the end of an .exe change its hash, and
// nothing else.
func (h upgrader) unpack(dir string, others map[string]string) (program string) {
	h.t.Helper()
	for _, name := range []string{"porthole.exe", "kube-proxy.exe", "win-bridge.exe"} {
		from := name
		if other := others[name]; other != "" {
			from = other
		}
		data, err := os.ReadFile(filepath.Join(bin, "windows", from))
		if err != nil {
			h.t.Fatal(err)
		}
		h.write(dir+"/"+name, string(data)+dir)
	}
	return `C:\` + dir + `\porthole.exe`
}

// versions are the folders that the three services run from.
func (h upgrader) versions() string {
	h.t.Helper()
	var list []string
	for _, name := range []string{"porthole-routes", "kube-proxy", "kubelet"} {
		_, after, _ := strings.Cut(h.service(name).Path, `\versions\`)
		version, _, _ := strings.Cut(after, `\`)
		if !slices.Contains(list, version) {
			list = append(list, version)
		}
	}
	return strings.Join(list, " ")
}

// upgrades exchanges the programs under 50 open streams: by a version that is healthy, by one that is not, which goes
// back, by one whose upgrade is killed, by rollback, and at last by the first again.
func (h upgrader) upgrades() {
	h.t.Helper()
	streams, first := h.streams(50), h.versions()
	second := h.unpack("p2", nil)
	start := time.Now()
	h.must(shortly, "host", "hns", h.name, "stats", "reset", "--dir", state)
	gap := h.proxyGap()
	r := h.exchange(0, step.Upgraded, second, "upgrade")
	if longest := gap(); longest > maxGap {
		h.t.Errorf("the service proxy did not answer for %v, more than %v", longest, maxGap)
	} else {
		h.t.Logf("the service proxy did not answer for %v", longest.Round(time.Millisecond))
	}
	if n := h.writes(); n > 0 {
		h.t.Errorf("the upgrade wrote to HNS %d times", n)
	}
	if now := h.versions(); now != r.To || r.From != first || now == first {
		h.t.Errorf("the services are of %s, before %s; the report says %s to %s", now, first, r.From, r.To)
	}
	h.t.Logf("upgrade took %.1f s", time.Since(start).Seconds())
	streams.alive("after the upgrade")
	h.answers("after the upgrade")
	h.exchange(0, step.Unchanged, second, "upgrade")

	start = time.Now()
	third := h.unpack("p3", map[string]string{"kube-proxy.exe": "win-bridge.exe"})
	h.exchange(5, step.RolledBack, third, "upgrade")
	if now := h.versions(); now != r.To {
		h.t.Errorf("after a version that does not run the services are of %s, before %s", now, r.To)
	}
	h.t.Logf("going back took %.1f s", time.Since(start).Seconds())
	streams.alive("after a version that does not run")
	h.exchange(4, step.Refused, third, "upgrade")

	fourth := h.unpack("p4", nil)
	h.killUpgrade(fourth, streams)
	h.exchange(4, step.Refused, fourth, "upgrade")
	h.exchange(0, step.Upgraded, fourth, "upgrade", "--force", "--skip-sums")
	h.exchange(0, step.Upgraded, second, "rollback")
	if now := h.versions(); now != r.To {
		h.t.Errorf("after the rollback the services are of %s, want %s", now, r.To)
	}
	h.exchange(0, step.Upgraded, program, "upgrade")
	streams.alive("after all")
	if now := h.versions(); now != first {
		h.t.Errorf("at the end the services are of %s, want %s", now, first)
	}
	if r, code := h.report("join"); code != 0 || r.Outcome != step.Unchanged {
		h.t.Errorf("after upgrades a join changes %v: %s", done(r), r.Error)
	}
}

// again exchanges the programs n times, there and back between two versions, under 50 open streams. Each time no
// stream is lost, HNS is written to by nobody, and the service proxy is back in time.
func (h upgrader) again(n int) {
	h.t.Helper()
	streams := h.streams(50)
	programs := []string{h.unpack("even", nil), h.unpack("odd", nil)}
	var gaps []time.Duration
	for i := range n {
		when := fmt.Sprintf("upgrade %d of %d", i+1, n)
		h.must(shortly, "host", "hns", h.name, "stats", "reset", "--dir", state)
		gap := h.proxyGap()
		r := h.exchange(0, step.Upgraded, programs[i%2], "upgrade")
		longest := gap()
		gaps = append(gaps, longest)

		if longest > maxGap {
			h.t.Errorf("%s: the service proxy did not answer for %v, more than %v", when, longest, maxGap)
		}
		if writes := h.writes(); writes > 0 {
			h.t.Errorf("%s wrote to HNS %d times", when, writes)
		}
		if now := h.versions(); now != r.To {
			h.t.Errorf("%s: the services are of %s, want %s", when, now, r.To)
		}
		streams.alive("after " + when)
		load, _ := os.ReadFile("/proc/loadavg") // only for the log
		h.t.Logf("%s: %.1f s, the service proxy did not answer for %v, load %s", when, r.Seconds,
			longest.Round(time.Millisecond), strings.TrimSpace(string(load)))
	}
	slices.Sort(gaps)
	h.t.Logf("%d upgrades: the service proxy did not answer for %v in the middle, %v at most", n,
		gaps[n/2].Round(time.Millisecond), gaps[n-1].Round(time.Millisecond))
}

// killedEverywhere ends upgrades before and after each of their acts, and some on their way back too. Whoever comes
// after takes them back: a rollback, the kubelet, or the kubelet after the power was cut. Each time the node is of one
// whole version.
func (h upgrader) killedEverywhere() {
	h.t.Helper()
	streams, before, f := h.streams(10), h.versions(), faulty(h)
	failing := f.failing() // other bytes than those of the node, thus another version
	for _, p := range []string{"stage/before", "stage/after", "porthole-routes/before", "porthole-routes/after",
		"kube-proxy/before", "kube-proxy/after",
		"kubelet/before", "kubelet/after", "cni/before", "cni/after", "soak/before", "soak/after"} {
		start := time.Now()
		f.endsAt(failing, "upgrade "+p, "upgrade", "--force", "--skip-sums")
		if strings.HasPrefix(p, "cni") || strings.HasPrefix(p, "soak") { // the one who goes back is killed too
			f.endsAt(failing, "upgrade back/kube-proxy/"+p[strings.Index(p, "/")+1:], "rollback")
		}

		how := "rollback"
		if p == "kubelet/after" { // nobody says anything
			how = "the kubelet"
			wait.True(h.t, 2*time.Minute, "the kubelet to take the upgrade back",
				func() bool { return h.phase() == upgrade.WentBack && h.versions() == before })
		} else if out, code := h.exe(program, "rollback"); code != 0 {
			h.t.Errorf("rollback after a kill at %s: exit code %d\n%s", p, code, out)
		}
		if now := h.versions(); now != before || h.phase() != upgrade.WentBack {
			h.t.Errorf("after a kill at %s the services are of %s, before %s, and the journal says %s", p, now, before,
				h.phase())
		}
		f.once("after a kill at " + p)
		streams.alive("after a kill at " + p)
		h.t.Logf("killed at %s: %s took it back, %.1f s in all", p, how, time.Since(start).Seconds())
	}

	f.endsAt(failing, "upgrade kube-proxy/after", "upgrade", "--force", "--skip-sums")
	h.must(3*time.Minute, "host", "reboot", h.name, "--power-cut", "--dir", state)
	start := time.Now()
	wait.True(h.t, 3*time.Minute, "the kubelet to take the upgrade back after the power was cut",
		func() bool { return h.phase() == upgrade.WentBack && h.versions() == before })
	h.answers("after the power was cut in an upgrade")
	h.t.Logf("the power was cut after kube-proxy was exchanged: taken back %.1f s after the boot",
		time.Since(start).Seconds())
}

// maxGap is how long no process may follow Services while the programs are exchanged.
const maxGap = 2 * time.Second

// writes returns how often HNS was told to change something since the count was reset.
func (h upgrader) writes() int {
	h.t.Helper()
	var stats struct{ Writes int }
	if err := json.Unmarshal([]byte(h.must(shortly, "host", "hns", h.name, "stats", "-o", "json", "--dir", state)),
		&stats); err != nil {
		h.t.Fatal(err)
	}
	return stats.Writes
}

// proxyGap asks the service proxy's health port from the Linux node all the time. The function that it returns ends
// that, and returns the longest time between two answers.
func (h upgrader) proxyGap() func() time.Duration {
	ip, done, longest := h.ip(), make(chan struct{}), make(chan time.Duration)
	client := http.Client{Timeout: time.Second,
		Transport: &http.Transport{DialContext: testkit.DialIn(platform.NetnsPath("porthole-lin01")),
			DisableKeepAlives: true}}
	go func() {
		most, last := time.Duration(0), time.Now()
		for {
			if answer, err := client.Get("http://" + net.JoinHostPort(ip, "10256") + "/livez"); err == nil {
				answer.Body.Close()
				most, last = max(most, time.Since(last)), time.Now()
			}
			select {
			case <-done:
				longest <- max(most, time.Since(last))
				return
			case <-time.After(20 * time.Millisecond):
			}
		}
	}()
	return func() time.Duration {
		close(done)
		return <-longest
	}
}

// ip is the address of the node.
func (h upgrader) ip() string {
	h.t.Helper()
	ip, err := h.kubectl("get", "node", h.name, "-o", `jsonpath={.status.addresses[?(@.type=="InternalIP")].address}`)
	if err != nil {
		h.t.Fatal(err)
	}
	return strings.TrimSpace(ip)
}

// exchange runs upgrade or rollback.
func (h upgrader) exchange(code int, outcome step.Outcome, program string, args ...string) (r step.Report) {
	h.t.Helper()
	if args[0] == "upgrade" && !slices.Contains(args, "--skip-sums") {
		args = append(args, "--skip-sums") // built, and not of an archive
	}
	out, got := h.exe(program, append(args, "-o", "json")...)
	if start := strings.Index(out, "{"); start >= 0 {
		if err := json.NewDecoder(strings.NewReader(out[start:])).Decode(&r); err != nil {
			h.t.Fatalf("%v\n%s", err, out)
		}
	}
	if got != code || r.Outcome != outcome {
		h.t.Fatalf("%s %v: exit code %d, want %d, and %s\n%s", program, args, got, code, outcome, out)
	}
	return r
}

// killUpgrade kills an upgrade when it has begun with the second service. The kubelet takes it back.
func (h upgrader) killUpgrade(program string, streams *streams) {
	h.t.Helper()
	before, ended := h.versions(), make(chan struct{})
	go func() {
		defer close(ended)
		// it is killed
		_, _ = porthole(2*time.Minute, "host", "run", "--dir", state, h.name, "--", program, "upgrade", "--skip-sums")
	}()
	wait.True(h.t, shortly, "the upgrade to have begun", func() bool {
		text, err := os.ReadFile(h.path("ProgramData/Porthole/upgrade.json"))
		if err != nil {
			return false
		}
		j, err := upgrade.ParseJournal(text)
		return err == nil && j.Phase == upgrade.Switching && j.Parts[1].Begun
	})
	h.kill(`p4\porthole.exe`)
	<-ended
	streams.alive("after a killed upgrade")

	wait.True(h.t, 2*time.Minute, "the kubelet to take it back",
		func() bool { return h.versions() == before && h.phase() == upgrade.WentBack })
	streams.alive("after a killed upgrade was taken back")
}

// phase is how far the last upgrade has come.
func (h upgrader) phase() upgrade.Phase {
	text, err := os.ReadFile(h.path("ProgramData/Porthole/upgrade.json"))
	if err != nil {
		return ""
	}
	j, err := upgrade.ParseJournal(text)
	if err != nil {
		return ""
	}
	return j.Phase
}

// kill ends the processes of the host with SIGKILL whose command line has a text.
func (h upgrader) kill(text string) {
	h.t.Helper()
	pids, err := platform.NetnsPids(platform.NetnsPath("porthole-" + h.name))
	if err != nil {
		h.t.Fatal(err)
	}
	for _, pid := range pids {
		// gone meanwhile: not the program
		if args, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)); strings.Contains(string(args), text) {
			if err := unix.Kill(pid, unix.SIGKILL); err != nil {
				h.t.Fatal(err)
			}
		}
	}
}

// streams are open connections to the pod, from the Linux node through the node port of the Windows node: its HNS
// translates them.
type streams struct {
	t     testing.TB
	conns []net.Conn
	said  int
}

func (h upgrader) streams(n int) *streams {
	h.t.Helper()
	ip, s := h.ip(), &streams{t: h.t}
	dial := testkit.DialIn(platform.NetnsPath("porthole-lin01"))
	for range n {
		var c net.Conn
		wait.NoError(h.t, shortly, "a stream", func() (err error) {
			c, err = dial(h.t.Context(), "tcp", net.JoinHostPort(ip, "30007"))
			return err
		})
		h.t.Cleanup(func() { c.Close() })
		s.conns = append(s.conns, c)
	}
	s.alive("at first")
	return s
}

// alive sends a line on each stream and wants it back.
func (s *streams) alive(when string) {
	s.t.Helper()
	s.said++
	lost := 0
	for i, c := range s.conns {
		line := fmt.Sprintf("line %d of stream %d\n", s.said, i)
		_ = c.SetDeadline(time.Now().Add(10 * time.Second)) // the read tells
		_, err := fmt.Fprint(c, line)
		got := ""
		if err == nil {
			got, err = bufio.NewReader(c).ReadString('\n')
		}
		if err != nil || got != line {
			if lost++; lost == 1 {
				s.t.Errorf("%s: stream %d answers %q, %v", when, i, got, err)
			}
		}
	}
	if lost > 0 {
		s.t.Errorf("%s: %d of %d streams are lost", when, lost, len(s.conns))
	}
}
