package flannel

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"

	"porthole.dev/porthole/internal/platform"
	"porthole.dev/porthole/internal/testkit"
	"porthole.dev/porthole/internal/testkit/netspace"
	"porthole.dev/porthole/internal/testkit/wait"
)

const bin = "../../bin"

// nodes of the cluster: flanneld runs on the first two, porthole routes on the others.
var nodes = []struct{ name, addr, pods, pod string }{
	{"flan1", "10.99.0.11", "10.244.1.0/24", "10.244.1.10"},
	{"flan2", "10.99.0.12", "10.244.2.0/24", "10.244.2.10"},
	{"our1", "10.99.0.13", "10.244.3.0/24", "10.244.3.10"},
	{"our2", "10.99.0.14", "10.244.4.0/24", "10.244.4.10"},
}

// cluster is the control plane with the nodes' hosts.
type cluster struct {
	*testing.T
	all    *testing.T // the test, while T is a part of it
	client kubernetes.Interface
	dir    string
	spaces map[string]*netspace.Space
	procs  map[string]*process
}

type process struct {
	cmd  *exec.Cmd
	done chan struct{}
}

// newCluster starts the control plane and makes the nodes, without anything that connects them.
func newCluster(t *testing.T) *cluster {
	t.Helper()
	for _, program := range []string{"porthole", "bundle/kube", "bundle/flanneld"} {
		if _, err := os.Stat(filepath.Join(bin, program)); err != nil {
			t.Fatalf("this test needs bin/%s: make build bundle-tests", program)
		}
	}
	c := &cluster{T: t, all: t, dir: t.TempDir(), spaces: map[string]*netspace.Space{}, procs: map[string]*process{}}
	sw, ports := netspace.New(t, "switch"), []string{}
	add := func(name, addr string) *netspace.Space {
		s := netspace.New(t, name)
		s.Connect("eth0", sw, name)
		s.Address("eth0", addr+"/24")
		c.spaces[name] = s
		ports = append(ports, name)
		return s
	}

	add("api", "10.99.0.10")
	for _, n := range nodes {
		s := add(n.name, n.addr)
		s.Address("lo", n.pod+"/32")
		s.Forward()
	}
	sw.Bridge("sw0", ports...)
	c.controlPlane()
	for i := range nodes {
		c.makeNode(i)
	}
	return c
}

// controlPlane starts etcd and the API server, with the rights that flannel's and our manifests give.
func (c *cluster) controlPlane() {
	c.Helper()
	control := testkit.ControlPlane{Dir: filepath.Join(c.dir, "controlplane"), Address: "10.99.0.10",
		Services: "10.96.0.0/16",
		Users: []string{`admin,admin,admin,"system:masters"`, `ours,porthole:routes,routes,""`,
			`flannel,flannel,flannel,""`},
		APIServer: []string{"--authorization-mode=RBAC", "--disable-admission-plugins=ServiceAccount",
			"--profiling=false"}}
	config, err := control.Write()
	if err != nil {
		c.Fatal(err)
	}
	c.start("api", "controlplane", nil, filepath.Join(bin, "bundle/kube"), "controlplane", "--config", config)
	if c.client, err = control.Client(c.spaces["api"].Path, "admin"); err != nil {
		c.Fatal(err)
	}
	wait.NoError(c.T, 60*time.Second, "the API server", func() error { return c.rights() })
}

// rights makes the roles of porthole routes, as a local cluster has them, and of flanneld, as its own manifest does.
func (c *cluster) rights() error {
	data, err := os.ReadFile("../../cluster/manifests/base.yaml")
	if err != nil {
		return err
	}
	var ours rbacv1.ClusterRole
	for _, doc := range strings.Split(string(data), "\n---\n") {
		var role rbacv1.ClusterRole
		if err := yaml.Unmarshal([]byte(doc), &role); err == nil && role.Kind == "ClusterRole" &&
			role.Name == "porthole:routes" {
			ours = role
		}
	}

	flannel := rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "flannel"}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"get"}},
		{APIGroups: []string{""}, Resources: []string{"nodes"}, Verbs: []string{"get", "list", "watch"}},
		{APIGroups: []string{""}, Resources: []string{"nodes/status"}, Verbs: []string{"patch"}},
	}}
	for _, role := range []*rbacv1.ClusterRole{&ours, &flannel} {
		if _, err := c.client.RbacV1().ClusterRoles().
			Create(context.Background(), role, metav1.CreateOptions{}); err != nil {
			return err
		}
		binding := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: role.Name},
			RoleRef:  rbacv1.RoleRef{Kind: "ClusterRole", Name: role.Name},
			Subjects: []rbacv1.Subject{{Kind: "User", Name: role.Name}}}
		if _, err := c.client.RbacV1().ClusterRoleBindings().
			Create(context.Background(), binding, metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	return nil
}

func (c *cluster) makeNode(i int) {
	c.Helper()
	n := nodes[i]
	// As in every cluster the controller manager has annotated the Node. flanneld panics on one without annotations.
	meta := metav1.ObjectMeta{Name: n.name, Annotations: map[string]string{"node.alpha.kubernetes.io/ttl": "0"}}
	node := &corev1.Node{ObjectMeta: meta, Spec: corev1.NodeSpec{PodCIDR: n.pods, PodCIDRs: []string{n.pods}}}
	node, err := c.client.CoreV1().Nodes().Create(c.Context(), node, metav1.CreateOptions{})
	if err != nil {
		c.Fatal(err)
	}
	node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: n.addr}}
	if _, err := c.client.CoreV1().Nodes().UpdateStatus(c.Context(), node, metav1.UpdateOptions{}); err != nil {
		c.Fatal(err)
	}
}

func (c *cluster) node(name string) *corev1.Node {
	c.Helper()
	n, err := c.client.CoreV1().Nodes().Get(c.Context(), name, metav1.GetOptions{})
	if err != nil {
		c.Fatal(err)
	}
	return n
}

// kubeconfig writes the file for a user, whose token is his name here.
func (c *cluster) kubeconfig(token string) string {
	c.Helper()
	type object = map[string]any
	path := filepath.Join(c.dir, token+".kubeconfig")
	err := testkit.WriteJSON(path, object{
		"apiVersion": "v1", "kind": "Config", "current-context": "c",
		"clusters": []object{{"name": "c",
			"cluster": object{"server": "https://10.99.0.10:6443", "insecure-skip-tls-verify": true}}},
		"users":    []object{{"name": "u", "user": object{"token": token}}},
		"contexts": []object{{"name": "c", "context": object{"cluster": "c", "user": "u"}}},
	})
	if err != nil {
		c.Fatal(err)
	}
	return path
}

// start runs a program in a host's namespace until it is killed or the test ends. Its output is shown if the test
// fails.
func (c *cluster) start(host, name string, env []string, program string, args ...string) {
	c.Helper()
	log, err := os.OpenFile(filepath.Join(c.dir, name+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		c.Fatal(err)
	}
	defer log.Close()
	cmd := exec.Command(program, args...)
	cmd.Stdout, cmd.Stderr, cmd.Env = log, log, append(os.Environ(), env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := platform.StartInNetns(c.spaces[host].Path, cmd); err != nil {
		c.Fatal(err)
	}
	p := &process{cmd, make(chan struct{})}
	go func() {
		defer close(p.done)
		_ = cmd.Wait() // how it ended is in its log
	}()

	c.procs[name] = p
	c.all.Cleanup(func() {
		p.kill()
		if data, err := os.ReadFile(log.Name()); err == nil && c.all.Failed() {
			c.all.Logf("---- %s\n%s", name, data[max(0, len(data)-4000):])
		}
	})
}

// kill ends a process as a crash would, and returns when it is gone.
func (p *process) kill() {
	select {
	case <-p.done:
	default:
		_ = p.cmd.Process.Kill()
		<-p.done
	}
}

// flanneld starts flannel's agent on a node, with the configuration that our mode asks for.
func (c *cluster) flanneld(name string, conf any) {
	c.Helper()
	dir := filepath.Join(c.dir, name)
	file := filepath.Join(dir, "net-conf.json")
	if err := testkit.WriteJSON(file, conf); err != nil {
		c.Fatal(err)
	}
	c.start(name, name, []string{"NODE_NAME=" + name, "PATH=" + os.Getenv("PATH") + ":/usr/sbin:/sbin"},
		filepath.Join(bin, "bundle/flanneld"),
		"-kube-subnet-mgr", "-kubeconfig-file="+c.kubeconfig("flannel"), "-net-config-path="+file, "-iface=eth0",
		"-ip-masq=false", "-iptables-forward-rules=false", "-subnet-file="+filepath.Join(dir, "subnet.env"),
		"-healthz-port=0")
}

// ours starts porthole routes on a node.
func (c *cluster) ours(name, mode string) {
	c.Helper()
	conf := filepath.Join(c.dir, name)
	if err := os.MkdirAll(conf, 0o755); err != nil {
		c.Fatal(err)
	}
	c.start(name, name, nil, filepath.Join(bin, "porthole"), "routes", "--kubeconfig="+c.kubeconfig("ours"),
		"--hostname-override="+name,
		"--mode="+mode, "--cluster-cidr=10.244.0.0/16", "--service-cidr=10.96.0.0/16", "--cni-conf-dir="+conf, "-v=1")
}

// startAll starts the agents of all nodes.
func (c *cluster) startAll(mode string, conf any) {
	c.Helper()
	for i, n := range nodes {
		if i < 2 {
			c.flanneld(n.name, conf)
		} else {
			c.ours(n.name, mode)
		}
	}
}

// on does something in a host's namespace.
func (c *cluster) on(name string, f func() error) {
	c.Helper()
	if err := platform.InNetns(c.spaces[name].Path, f); err != nil {
		c.Fatalf("%s: %v", name, err)
	}
}

// echoes answers datagrams to the pod addresses of all nodes until the test ends.
func (c *cluster) echoes() {
	c.Helper()
	for _, n := range nodes {
		var server net.PacketConn
		c.on(n.name, func() (err error) {
			server, err = net.ListenPacket("udp4", n.pod+":7")
			return err
		})
		var done sync.WaitGroup
		done.Go(func() {
			buf := make([]byte, 2048)
			for {
				size, peer, err := server.ReadFrom(buf)
				if err != nil {
					return
				}
				_, _ = server.WriteTo(buf[:size], peer) // a lost answer is seen by who waits for it
			}
		})
		c.all.Cleanup(func() { server.Close(); done.Wait() })
	}
}

// dial returns a connection from one pod address to another's echo.
func (c *cluster) dial(from, to int) (conn net.Conn, err error) {
	err = platform.InNetns(c.spaces[nodes[from].name].Path, func() (err error) {
		conn, err = net.DialUDP("udp4", &net.UDPAddr{IP: net.ParseIP(nodes[from].pod)},
			&net.UDPAddr{IP: net.ParseIP(nodes[to].pod), Port: 7})
		return err
	})
	return conn, err
}

// asks sends a datagram from one pod address to another and waits for the echo.
func (c *cluster) asks(from, to int) error {
	conn, err := c.dial(from, to)
	if err != nil {
		return err
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(500 * time.Millisecond))
	if _, err := conn.Write(make([]byte, 1400)); err != nil {
		return fmt.Errorf("%s to %s: %w", nodes[from].name, nodes[to].name, err)
	}
	if _, err := conn.Read(make([]byte, 2048)); err != nil {
		return fmt.Errorf("%s to %s: %w", nodes[from].name, nodes[to].name, err)
	}
	return nil
}

// carries waits until packets go in all directions between these nodes.
func (c *cluster) carries(limit time.Duration, what string, members ...int) time.Duration {
	c.Helper()
	start := time.Now()
	wait.NoError(c.T, limit, what, func() error {
		for _, from := range members {
			for _, to := range members {
				if err := c.asks(from, to); err != nil {
					return err
				}
			}
		}
		return nil
	})
	return time.Since(start)
}

var everybody = []int{0, 1, 2, 3}

// routesTo returns the routes of a host to a pod range that have a gateway, each as "GATEWAY proto N", where N is the
// number of the program that made it.
func (c *cluster) routesTo(name, pods string) (list []string) {
	c.Helper()
	c.on(name, func() error {
		routes, err := netlink.RouteList(nil, netlink.FAMILY_V4)
		for _, r := range routes {
			if r.Dst != nil && r.Dst.String() == pods && r.Gw != nil {
				list = append(list, fmt.Sprintf("%s proto %d", r.Gw, r.Protocol))
			}
		}
		return err
	})
	return list
}

// keepsPackets sends 1,000 datagrams from one node's pod address to the echo of another's, each after the answer to
// the one before, while f runs. It returns how many got no answer within 200 ms, and gives up after 21 of them.
func (c *cluster) keepsPackets(from, to int, f func()) (lost int) {
	c.Helper()
	conn, err := c.dial(from, to)
	if err != nil {
		c.Fatal(err)
	}
	defer conn.Close()
	var during sync.WaitGroup
	defer during.Wait()
	during.Go(f)

	buf := make([]byte, 2048)
	for i := range 1000 {
		if lost > 20 {
			return lost
		}
		question, _ := json.Marshal(i)
		_ = conn.SetDeadline(time.Now().Add(200 * time.Millisecond))
		if _, err := conn.Write(question); err != nil {
			lost++
			continue
		}
		for {
			n, err := conn.Read(buf)
			if err != nil {
				lost++
				break
			}
			if string(buf[:n]) == string(question) {
				break
			}
		}
		time.Sleep(time.Millisecond) // the pace of the questions
	}
	return lost
}

func addrOf(text string) netip.Addr { return netip.MustParseAddr(text) }

// complete waits until the agent of a node is ready, which it is once it has every route.
func (c *cluster) complete(name string) {
	c.Helper()
	wait.NoError(c.T, 10*time.Second, name+" has every route", func() error {
		var conn net.Conn
		err := platform.InNetns(c.spaces[name].Path, func() (err error) {
			conn, err = net.Dial("tcp4", "127.0.0.1:10261")
			return err
		})
		if err != nil {
			return err
		}
		defer conn.Close()
		if _, err := fmt.Fprint(conn, "GET /readyz HTTP/1.0\r\n\r\n"); err != nil {
			return err
		}
		answer := make([]byte, 500)
		n, _ := conn.Read(answer) // an empty answer is none
		if !strings.HasPrefix(string(answer[:n]), "HTTP/1.0 200") {
			return fmt.Errorf("answer %q", answer[:n])
		}
		return nil
	})
}
