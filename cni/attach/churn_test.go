package attach

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"runtime"
	"strconv"
	"sync"
	"testing"

	types100 "github.com/containernetworking/cni/pkg/types/100"

	"porthole.dev/porthole/cni/contract"
	"porthole.dev/porthole/hns"
	"porthole.dev/porthole/hns/hnstest"
)

// killed ends the goroutine that makes a call to HNS, before or after the call, as a kill ends the plugin's process.
// What a process holds is released, as by deferred functions here: the lock of the address store.
type killed struct {
	hnstest.Rules
	die func() bool // reports whether to end now; asked twice for each call
}

func (k killed) step() {
	if k.die() {
		runtime.Goexit()
	}
}

func (k killed) NetworkByName(ctx context.Context, name string) (hns.Network, error) {
	k.step()
	defer k.step()
	return k.Fake.NetworkByName(ctx, name)
}

func (k killed) EndpointByName(ctx context.Context, name string) (hns.Endpoint, error) {
	k.step()
	defer k.step()
	return k.Fake.EndpointByName(ctx, name)
}

func (k killed) CreateEndpoint(ctx context.Context, e hns.Endpoint) (hns.Endpoint, error) {
	k.step()
	defer k.step()
	return k.Fake.CreateEndpoint(ctx, e)
}

func (k killed) DeleteEndpoint(ctx context.Context, id hns.EndpointID) error {
	k.step()
	defer k.step()
	return k.Fake.DeleteEndpoint(ctx, id)
}

func (k killed) AddToNamespace(ctx context.Context, namespace hns.NamespaceID, id hns.EndpointID) error {
	k.step()
	defer k.step()
	return k.Fake.AddToNamespace(ctx, namespace, id)
}

func (k killed) RemoveFromNamespace(ctx context.Context, namespace hns.NamespaceID, id hns.EndpointID) error {
	k.step()
	defer k.step()
	return k.Fake.RemoveFromNamespace(ctx, namespace, id)
}

func (k killed) Endpoint(ctx context.Context, id hns.EndpointID) (hns.Endpoint, error) {
	k.step()
	defer k.step()
	return k.Fake.Endpoint(ctx, id)
}

// churn is a node on which pods come and go.
type churn struct {
	t    *testing.T
	h    *hnstest.Fake
	dir  string
	conf *contract.Config

	mu    sync.Mutex
	inUse map[netip.Addr]string // addresses that ADD gave and DEL did not take back yet, with their sandboxes
	given map[netip.Addr]int    // how often each address was given
	kills int
}

// TestChurn lets pods come and go, eight at a time, while one HNS call in ten fails and one in twenty calls of the
// plugin is killed at some step. A pod whose ADD did not succeed is deleted, as runtimes do, until DEL succeeds. No
// two pods have an address at the same time, none has one that is not for pods, and nothing is left.
// PORTHOLE_CNI_CHURN says how many pods (make test-cni: 10,000).
// Rows 1.39, 1.66.
func TestChurn(t *testing.T) {
	pods := 600
	if n, err := strconv.Atoi(os.Getenv("PORTHOLE_CNI_CHURN")); err == nil {
		pods = n
	}
	c := &churn{t: t, h: hnstest.New(hns.Version{Major: 13, Minor: 3}, testNetwork), dir: t.TempDir(),
		inUse: map[netip.Addr]string{}, given: map[netip.Addr]int{}}
	c.conf = config(t, c.dir, withPolicies)
	// The whole range, and a gateway in the midst of it.
	c.conf.IPAM = fmt.Appendf(nil, `{"dataDir":%q,"subnet":"10.244.2.0/27","gateway":"10.244.2.13"}`, c.dir)
	c.h.SetFault(hnstest.OneIn(10, 1, hnstest.DoThenFail))

	var workers sync.WaitGroup
	for w := range 8 {
		workers.Go(func() { c.work(w, pods/8) })
	}
	workers.Wait()

	if c.h.Dump() != "" || len(files(t, c.dir)) > 0 {
		t.Errorf("left %s%v", c.h.Dump(), files(t, c.dir))
	}
	for _, never := range []string{"10.244.2.0", "10.244.2.1", "10.244.2.2", "10.244.2.13", "10.244.2.31"} {
		if n := c.given[netip.MustParseAddr(never)]; n > 0 {
			t.Errorf("%s was given to %d pods", never, n)
		}
	}
	if len(c.given) != 27 { // 32 but for those
		t.Errorf("%d addresses were given, want all 27: %v", len(c.given), c.given)
	}
	if c.kills < pods/40 {
		t.Errorf("only %d kills in %d pods", c.kills, pods)
	}
}

// work runs pods of one worker, three at a time.
func (c *churn) work(worker, pods int) {
	random := rand.New(rand.NewPCG(uint64(worker), 2))
	var live []Call
	for i := range pods {
		namespace := hns.NamespaceID(fmt.Sprintf("7f4c0000-0000-4000-8000-%04d%08d", worker, i))
		c.h.AddNamespace(namespace)
		call := Call{Container: fmt.Sprintf("pod-%d-%d", worker, i), Namespace: string(namespace), Interface: "eth0",
			Config: c.conf}
		if result := c.add(random, call); result != nil {
			c.took(call, result)
			live = append(live, call)
		} else {
			c.del(random, call)
		}
		if len(live) == 3 || len(live) > 0 && random.IntN(3) == 0 {
			c.del(random, live[0])
			live = live[1:]
		}
	}
	for _, call := range live {
		c.del(random, call)
	}
}

// took notes the address of a pod.
func (c *churn) took(call Call, result *types100.Result) {
	addr, _ := netip.AddrFromSlice(result.IPs[0].Address.IP)
	c.mu.Lock()
	defer c.mu.Unlock()
	if other := c.inUse[addr.Unmap()]; other != "" {
		c.t.Errorf("%s has the address %s of %s", call.Container, addr, other)
	}
	c.inUse[addr.Unmap()] = call.Container
	c.given[addr.Unmap()]++
}

// plugin makes a plugin's process, which one time in twenty is killed at a random step.
func (c *churn) plugin(random *rand.Rand) Plugin {
	left := -1
	if random.IntN(20) == 0 {
		left = random.IntN(10)
		c.mu.Lock()
		c.kills++
		c.mu.Unlock()
	}
	k := killed{hnstest.Rules{Fake: c.h}, func() bool { left--; return left == -1 }}
	if left < 0 {
		k.die = func() bool { return false }
	}
	return Plugin{Kind: transparent{}, Reader: k, Writer: k, Rules: k}
}

// add returns nil if the pod got no network.
func (c *churn) add(random *rand.Rand, call Call) (result *types100.Result) {
	p := c.plugin(random)
	process(func() { result, _ = p.Add(context.Background(), call) }) // the error is of a call that was made to fail
	return result
}

// del repeats DEL until it succeeds. The address is free before the last attempt ends, so that it counts as free
// before.
func (c *churn) del(random *rand.Rand, call Call) {
	c.mu.Lock()
	for addr, who := range c.inUse {
		if who == call.Container {
			delete(c.inUse, addr)
		}
	}
	c.mu.Unlock()
	for range 100 {
		done := false
		p := c.plugin(random)
		process(func() { done = p.Del(context.Background(), call) == nil })
		if done {
			return
		}
	}
	c.t.Errorf("DEL of %s never succeeded", call.Container)
}

// process runs a function that may end its goroutine.
func process(run func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		run()
	}()
	<-done
}
