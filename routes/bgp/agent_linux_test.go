package bgp

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"syscall"
	"testing"

	"porthole.dev/porthole/internal/atomicfile"
	"porthole.dev/porthole/internal/platform"
	"porthole.dev/porthole/routes/fib"
	"porthole.dev/porthole/routes/keep"
	"porthole.dev/porthole/routes/table"
)

// agentDir is set for a process of this test program that is the agent of one node. GoBGP opens its sockets on threads
// of its own, so that each node of a test needs a process in its network namespace; and an agent has to be killed.
const agentDir = "PORTHOLE_TEST_BGP_AGENT"

func TestMain(m *testing.M) {
	if dir := os.Getenv(agentDir); dir != "" {
		if err := runAgent(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// agentNode is node.json in the folder of an agent.
type agentNode struct {
	Name    string
	Addr    netip.Addr
	Cluster netip.Prefix
}

// runAgent keeps the routes of one node until SIGTERM. It reads nodes.json, and pods.json if it is there, before each
// pass, and writes each status to status.json.
func runAgent(dir string) error {
	debug.SetGCPercent(GarbagePercent)
	var node agentNode
	if err := readJSON(dir, "node.json", &node); err != nil {
		return err
	}
	text, err := os.ReadFile(filepath.Join(dir, "bgp.yaml"))
	if err != nil {
		return err
	}
	config, err := Parse(text)
	if err != nil {
		return err
	}
	host, err := fib.New(node.Addr, append([]netip.Prefix{node.Cluster}, config.Accepted()...)...)
	if err != nil {
		return err
	}

	pods := func() (p Pods) {
		readJSON(dir, "pods.json", &p)
		return p
	}
	mode := &mortal{Mode: New(Options{Node: node.Name, Addr: node.Addr, Cluster: node.Cluster, Config: config,
		Pods: pods}, host)}
	mode.left, _ = strconv.Atoi(os.Getenv(dieAfter))
	k := keep.New(mode, keep.Options{
		Nodes: func() (nodes []table.Node, ok bool) { return nodes, readJSON(dir, "nodes.json", &nodes) == nil },
		OnStatus: func(s keep.Status) {
			if len(s.Routes) > 100 {
				s.Routes = nil // a test that counts memory does not read them
			}
			if data, err := json.Marshal(s); err == nil {
				atomicfile.Write(filepath.Join(dir, "status.json"), data, 0o644)
			}
		},
	})
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	changes := make(chan os.Signal, 1)
	signal.Notify(changes, syscall.SIGHUP)
	go func() {
		for range changes {
			k.Changed()
		}
	}()
	k.Run(ctx)
	return nil
}

// dieAfter is after how many changes the agent kills itself; 0 or nothing: it does not.
const dieAfter = "PORTHOLE_TEST_BGP_DIE_AFTER"

// mortal is the mode of an agent that can be killed between two changes.
type mortal struct {
	*Mode
	left int
}

func (m *mortal) Apply(ctx context.Context, c Change) error {
	err := m.Mode.Apply(ctx, c)
	if m.left--; m.left == 0 {
		syscall.Kill(os.Getpid(), syscall.SIGKILL)
	}
	return err
}

func readJSON(dir, name string, into any) error {
	data, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		return err
	}
	return json.Unmarshal(data, into)
}

// agent is the process of one node.
type agent struct {
	t    *testing.T
	dir  string
	path string // of the node's network namespace
	cmd  *exec.Cmd
}

// newAgent prepares the agent of a node.
func newAgent(t *testing.T, path string, node agentNode, config string) *agent {
	t.Helper()
	a := &agent{t: t, dir: t.TempDir(), path: path}
	a.write("node.json", node)
	if err := os.WriteFile(filepath.Join(a.dir, "bgp.yaml"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.kill)
	return a
}

func (a *agent) write(name string, value any) {
	a.t.Helper()
	data, err := json.Marshal(value)
	if err == nil {
		err = atomicfile.Write(filepath.Join(a.dir, name), data, 0o600)
	}
	if err != nil {
		a.t.Fatal(err)
	}
}

// nodes changes the nodes that the agent knows.
func (a *agent) nodes(nodes []table.Node) {
	a.t.Helper()
	a.write("nodes.json", nodes)
	if a.cmd != nil {
		a.cmd.Process.Signal(syscall.SIGHUP)
	}
}

func (a *agent) start() {
	a.t.Helper()
	os.Remove(filepath.Join(a.dir, "status.json"))
	log, err := os.OpenFile(filepath.Join(a.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		a.t.Fatal(err)
	}
	defer log.Close()
	a.cmd = exec.Command(os.Args[0], "-test.run=^$")
	a.cmd.Env = append(os.Environ(), agentDir+"="+a.dir)
	a.cmd.Stdout, a.cmd.Stderr = log, log
	if err := platform.StartInNetns(a.path, a.cmd); err != nil {
		a.t.Fatal(err)
	}
}

// configure starts the agent again with another configuration.
func (a *agent) configure(config string) {
	a.t.Helper()
	a.stop()
	if err := os.WriteFile(filepath.Join(a.dir, "bgp.yaml"), []byte(config), 0o600); err != nil {
		a.t.Fatal(err)
	}
	a.start()
}

// kill ends the agent at once, as kill -9 does.
func (a *agent) kill() { a.end(syscall.SIGKILL) }

// stop ends the agent as a service manager does.
func (a *agent) stop() { a.end(syscall.SIGTERM) }

func (a *agent) end(s syscall.Signal) {
	if a.cmd == nil {
		return
	}
	a.cmd.Process.Signal(s)
	a.cmd.Wait()
	a.cmd = nil
	if a.t.Failed() {
		if log, err := os.ReadFile(filepath.Join(a.dir, "log")); err == nil && a.dir != "" {
			a.t.Logf("log of the agent in %s:\n%s", a.path, log)
		}
	}
}

// status returns the agent's last status; the zero Status before its first pass.
func (a *agent) status() keep.Status {
	var s keep.Status
	readJSON(a.dir, "status.json", &s)
	return s
}
