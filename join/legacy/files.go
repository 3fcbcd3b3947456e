package legacy

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

type object = map[string]any

// Target is the cluster that the machines join: what the line that `kubeadm token create --print-join-command` prints
// says. No old document has it.
type Target struct {
	Address string   // of the API server, with its port
	Hashes  []string // of the public key of its authority
}

// ParseLine reads the line of kubeadm. The token in it is not kept.
func ParseLine(line string) (t Target, err error) {
	words := strings.Fields(strings.ReplaceAll(line, "\\\n", " "))
	for i, w := range words {
		name, value, joined := strings.Cut(w, "=")
		if !joined && i+1 < len(words) {
			value = words[i+1]
		}
		switch {
		case name == "--discovery-token-ca-cert-hash":
			t.Hashes = append(t.Hashes, value)
		case w == "join" && !strings.HasPrefix(value, "-"):
			t.Address = value
		}
	}
	if t.Address == "" || len(t.Hashes) == 0 {
		return t,
			fmt.Errorf(
				"this is not what `kubeadm token create --print-join-command` prints: kubeadm join ADDRESS:PORT --token … --discovery-token-ca-cert-hash sha256:…")
	}
	return t, nil
}

// Config returns what `porthole join --config` reads on the machines of a pool: kubeadm's document and ours. The zero
// Target leaves places for address and sum. The token is in no file: a command line reads it.
func (p Pool) Config(t Target) (string, error) {
	address, hashes := "ADDRESS:6443", []string{"sha256:HASH"}
	if t.Address != "" {
		address, hashes = t.Address, t.Hashes
	}
	var args []object
	for _, name := range slices.Sorted(maps.Keys(p.KubeletFlags)) {
		args = append(args, object{"name": name, "value": p.KubeletFlags[name]})
	}
	if len(p.Labels) > 0 {
		args = append(args, object{"name": "node-labels",
			"value": strings.Join(slices.Sorted(slices.Values(p.Labels)), ",")})
	}
	registration := object{"criSocket": "npipe:////./pipe/containerd-containerd"}
	if len(args) > 0 {
		registration["kubeletExtraArgs"] = args
	}
	node := object{"apiVersion": "porthole.dev/v1alpha1", "kind": "NodeConfiguration", "network": p.Network}
	if p.SandboxImage != "" {
		node["containerd"] = object{"sandboxImage": p.SandboxImage}
	}

	join := object{"apiVersion": "kubeadm.k8s.io/v1beta4", "kind": "JoinConfiguration",
		"nodeRegistration": registration, "discovery": object{"bootstrapToken": object{
			"apiServerEndpoint": address, "caCertHashes": hashes,
		}}}
	var out strings.Builder
	if t.Address == "" {
		out.WriteString(
			"# Put ADDRESS and HASH in from the line that `kubeadm token create --print-join-command` prints, or give it with --join-line.\n")
	}
	for n, doc := range []object{join, node} {
		text, err := yaml.Marshal(doc)
		if err != nil {
			return "", err
		}
		if n > 0 {
			out.WriteString("---\n")
		}
		out.Write(text)
	}
	return out.String(), nil
}

// Commands are those for the machines of a pool, with the name of its file, which read the token from standard input,
// and then those for an administrator.
func (p Pool) Commands(file string) (list []string) {
	for _, m := range p.Machine {
		list = append(list, fmt.Sprintf("porthole.exe join --config %s --node-name %s --token-file -", file, m))
	}
	return append(list, p.Kubectl...)
}

// Print writes every field with its outcome, grouped by that, then the files and commands. dir says where the files
// are; "": they are printed.
func (i Import) Print(w io.Writer, dir string, t Target) error {
	count := map[Outcome]int{}
	for _, what := range Outcomes {
		for _, l := range i.Leaves {
			if l.What == what {
				count[what]++
				fmt.Fprintf(w, "%-8s %s = %s: %s\n", l.What, l.Path, l.Value, l.Text)
			}
		}
	}
	var sums []string
	for _, what := range Outcomes {
		sums = append(sums, fmt.Sprintf("%d %s", count[what], what))
	}
	fmt.Fprintf(w, "%d fields: %s\n", len(i.Leaves), strings.Join(sums, ", "))

	for _, p := range i.Pools {
		fmt.Fprintf(w, "\npool %s, %d machines", p.Name, p.Count)
		if p.Build != "" {
			fmt.Fprintf(w, ", Windows build %s", p.Build)
		}
		if dir == "" {
			text, err := p.Config(t)
			if err != nil {
				return err
			}
			fmt.Fprintf(w, ", %s:\n%s", p.File(), text)
		} else {
			fmt.Fprintf(w, ", %s in %s:\n", p.File(), dir)
		}
		for _, c := range p.Commands(p.File()) {
			fmt.Fprintln(w, c)
		}
	}
	return nil
}

// File is the name of a pool's file. A pool's name is of letters and digits in both programs; what is not becomes a
// dash.
func (p Pool) File() string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' {
			return r
		}
		return '-'
	}, p.Name) + ".yaml"
}
