package legacy

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// Import is what a cluster document becomes.
type Import struct {
	Leaves []Leaf `json:"leaves"` // all fields of the document, in its order
	Pools  []Pool `json:"pools"`  // of Windows machines
}

// Pool is a group of equal Windows machines, with what they join with.
type Pool struct {
	Name    string   `json:"name"`
	Count   int      `json:"count"`
	Build   string   `json:"build,omitempty"` // of Windows, which the machines of the document had
	Machine []string `json:"machines"`        // names of nodes
	Labels  []string `json:"labels,omitempty"`
	// Kubectl are labels that a node may not give itself, as commands for an administrator.
	Kubectl      []string          `json:"kubectl,omitempty"`
	KubeletFlags map[string]string `json:"kubeletFlags,omitempty"`
	Network      Network           `json:"network"`
	SandboxImage string            `json:"sandboxImage,omitempty"`
}

// Network is the part of a node's configuration about the pod network.
type Network struct {
	Mode          string `json:"mode,omitempty"` // "": the one that the cluster declares
	PodSubnet     string `json:"podSubnet,omitempty"`
	ServiceSubnet string `json:"serviceSubnet,omitempty"`
}

// field is a leaf with what rules look at.
type field struct {
	Leaf
	low   string // path in lower case without indexes
	pool  int    // index of the pool; -1: none
	plain string // the value; never a secret's
}

// Cluster reads a document of acs-engine or aks-engine (apiVersion vlabs). flag knows the kubelet's flags.
func Cluster(document []byte, flag FlagOf) (Import, error) {
	fields, err := read(document)
	if err != nil {
		return Import{}, err
	}
	i := importer{fields: fields, flag: flag, types: types()}
	if v := i.value("apiversion"); !strings.EqualFold(v, "vlabs") {
		return Import{}, fmt.Errorf("apiVersion %q: documents of acs-engine and aks-engine have vlabs", v)
	}
	i.decide()
	out := Import{Pools: i.pools}
	for _, f := range i.fields {
		out.Leaves = append(out.Leaves, f.Leaf)
	}
	return out, nil
}

// read lists the values of a document with their paths: texts, numbers, switches, null, and lists and objects with
// nothing in them.
func read(document []byte) (fields []field, err error) {
	d := json.NewDecoder(bytes.NewReader(document))
	d.UseNumber()
	var walk func(at string) error
	walk = func(at string) error {
		token, err := d.Token()
		if err != nil {
			return err
		}
		delim, is := token.(json.Delim)
		if !is {
			fields = append(fields, newField(at, token))
			return nil
		}
		empty := true
		for n := 0; d.More(); n++ {
			empty = false
			below := fmt.Sprintf("%s[%d]", at, n)
			if delim == '{' {
				key, err := d.Token()
				if err != nil {
					return err
				}
				// A name with a slash or a bracket, such as a label's, stays one name.
				below = strings.TrimPrefix(at+"/"+
					strings.NewReplacer("/", "~1", "[", "(", "]", ")").Replace(key.(string)), "/")
			}
			if err := walk(below); err != nil {
				return err
			}
		}
		if empty {
			fields = append(fields, newField(at, map[json.Delim]string{'{': "{}", '[': "[]"}[delim]))
		}
		_, err = d.Token()
		return err
	}

	if err := walk(""); err != nil {
		var syntax *json.SyntaxError
		if errors.As(err, &syntax) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
			before := document[:min(int(d.InputOffset()), len(document))]
			line := bytes.Count(before, []byte("\n")) + 1
			return nil, fmt.Errorf("line %d: this is not JSON: %w", line, err)
		}
		return nil, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("there is more behind the document")
	}
	return fields, nil
}

func newField(at string, value any) field {
	f := field{Leaf: Leaf{Path: at}, pool: -1}
	var low []string
	for name := range strings.SplitSeq(strings.ToLower(at), "/") {
		name, index, indexed := strings.Cut(name, "[")
		if n, err := strconv.Atoi(strings.TrimSuffix(index, "]")); indexed && err == nil &&
			name == "agentpoolprofiles" {
			f.pool = n
		}
		low = append(low, name)
	}
	f.low = strings.Join(low, "/")

	text := fmt.Sprint(value)
	if value == nil {
		text = "null"
	}
	f.Value, f.plain = text, text
	if isSecret(f.low) {
		f.Value, f.plain = "<hidden>", ""
	}
	return f
}

// importer decides about all fields.
type importer struct {
	fields []field
	flag   FlagOf
	pools  []Pool
	types  map[string]map[string]string
}

// value returns the value of the first field at a path in lower case.
func (i *importer) value(low string) string {
	for _, f := range i.fields {
		if f.low == low {
			return f.plain
		}
	}
	return ""
}

// in returns the value of a field of one pool.
func (i *importer) in(pool int, low string) string {
	for _, f := range i.fields {
		if f.pool == pool && f.low == "properties/agentpoolprofiles/"+low {
			return f.plain
		}
	}
	return ""
}

// decide gives each field its outcome, and fills in the pools.
func (i *importer) decide() {
	windows := map[int]int{} // index of the pool in the document, and in pools
	for _, f := range i.fields {
		if _, known := windows[f.pool]; f.pool < 0 || known || !strings.EqualFold(i.in(f.pool, "ostype"), "Windows") {
			continue
		}
		windows[f.pool] = len(i.pools)
		p := Pool{Name: i.in(f.pool, "name"), KubeletFlags: map[string]string{}, Network: Network{Mode: "host-gateway"}}
		p.Count, _ = strconv.Atoi(i.in(f.pool, "count")) // not a number: no machines, and the field shows its value
		for n := range p.Count {
			p.Machine = append(p.Machine, fmt.Sprintf("%s-%d", p.Name, n))
		}
		i.pools = append(i.pools, p)
	}

	// What holds for the whole cluster first: a pool's own setting then takes its place.
	for _, own := range []bool{false, true} {
		for n := range i.fields {
			f := &i.fields[n]
			if (f.pool >= 0) != own {
				continue
			}
			at, isWindows := windows[f.pool]
			switch {
			case !exists(i.types, f.low):
				f.What = Unknown
				f.Text = "neither acs-engine nor aks-engine has it"
			case !own:
				i.ofCluster(f)
			case isWindows:
				i.ofPool(f, []*Pool{&i.pools[at]})
			default:
				f.What = Cloud
				f.Text = "a pool of Linux machines: join them with `porthole join` or `kubeadm join`"
			}
		}
	}
}

// all returns every pool.
func (i *importer) all() (list []*Pool) {
	for n := range i.pools {
		list = append(list, &i.pools[n])
	}
	return list
}

// ofCluster decides about a field that holds for all pools.
func (i *importer) ofCluster(f *field) {
	name, config := strings.CutPrefix(f.low, "properties/orchestratorprofile/kubernetesconfig/")
	switch {
	case config && i.setting(f, name, i.all()):
	case f.low == "properties/orchestratorprofile/orchestratortype":
		f.What, f.Text = Used, "Kubernetes"
		if !strings.EqualFold(f.plain, "Kubernetes") {
			f.What = Refused
			f.Text = "Porthole makes nodes of Kubernetes only"
		}
	case f.low == "properties/orchestratorprofile/orchestratorversion",
		f.low == "properties/orchestratorprofile/orchestratorrelease":
		f.What = Dropped
		f.Text = f.plain + " is out of support; this node speaks " + kubernetes

	case f.low == "properties/windowsprofile/windowspauseimageurl":
		f.What, f.Text = Used, "containerd.sandboxImage"
		for _, p := range i.all() {
			p.SandboxImage = f.plain
		}
	case f.low == "properties/windowsprofile/windowssku", f.low == "properties/windowsprofile/imageversion":
		i.build(f)
	case f.low == "properties/featureflags/enablewindsr":
		f.What = Dropped
		f.Text = "direct server return is winkernel.enableDSR of kube-proxy's configuration, and on wherever HNS has it"
	default:
		f.byRule()
	}
}

// kubernetes is the release that nodes speak.
const kubernetes = "1.36"

// byRule takes the first rule that fits.
func (f *field) byRule() {
	// A field with nothing in it is as good as those below it.
	for _, at := range []string{f.low, f.low + "/"} {
		for _, r := range rules {
			if matches(r.pattern, at) {
				f.What, f.Text = r.what, r.text
				return
			}
		}
	}
	f.What, f.Text = Dropped, "nothing of a node depends on it"
}

// build finds the build of Windows that the machines had.
func (i *importer) build(f *field) {
	for _, b := range []struct{ name, build string }{
		{"2019", "17763"}, {"17763", "17763"}, {"2022", "20348"}, {"20348", "20348"}, {"2025", "26100"},
		{"26100", "26100"},
	} {
		if strings.Contains(f.plain, b.name) {
			f.What = Used
			f.Text = "Windows build " + b.build + ": `porthole join` checks the machine's"
			for _, p := range i.all() {
				p.Build = b.build
			}
			return
		}
	}
	for _, old := range []string{"2016", "14393", "1709", "16299", "1803", "17134", "1809", "1903", "1909", "2004"} {
		if strings.Contains(f.plain, old) {
			f.What = Refused
			f.Text = f.plain +
				" cannot be a node any more: install Windows Server 2019 (17763), 2022 (20348) or 2025 (26100)"
			return
		}
	}
	f.What, f.Text = Cloud, "an image of Azure"
}
