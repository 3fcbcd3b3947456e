package fit

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"porthole.dev/porthole/internal/script"
	routesbgp "porthole.dev/porthole/routes/bgp"
)

// TestScripts plays testdata: configurations as they are in the field, and what we advise.
// Row 1.72.
func TestScripts(t *testing.T) {
	script.Run(t, "testdata/*.txtar", func(*testing.T) script.Player { return &player{} })
}

type player struct{ Cluster }

// Give takes "objects" (YAML documents of the API) and "unread" (WHAT: WHY).
func (p *player) Give(section, text string) error {
	switch section {
	case "objects":
		p.Cluster = Cluster{}
		for doc := range strings.SplitSeq(text, "\n---\n") {
			if err := p.object([]byte(doc)); err != nil {
				return err
			}
		}
		return nil
	case "unread":
		for line := range strings.Lines(text) {
			what, why, _ := strings.Cut(strings.TrimSpace(line), ": ")
			p.Unread = append(p.Unread, Unread{what, why})
		}
		return nil
	}
	return fmt.Errorf("no section is called %q", section)
}

func (p *player) object(doc []byte) error {
	var meta struct {
		Kind     string
		Metadata struct{ Name string }
	}
	if err := yaml.Unmarshal(doc, &meta); err != nil {
		return err
	}

	switch meta.Kind {
	case "Node":
		var n corev1.Node
		p.Nodes = append(p.Nodes, n)
		return yaml.UnmarshalStrict(doc, &p.Nodes[len(p.Nodes)-1])
	case "ConfigMap":
		var m corev1.ConfigMap
		p.ConfigMaps = append(p.ConfigMaps, m)
		return yaml.UnmarshalStrict(doc, &p.ConfigMaps[len(p.ConfigMaps)-1])
	case "DaemonSet":
		var d appsv1.DaemonSet
		err := yaml.UnmarshalStrict(doc, &d)
		p.Workloads = append(p.Workloads, FromDaemonSet(d))
		return err
	}
	data, err := yaml.YAMLToJSON(doc)
	p.Custom = append(p.Custom, Custom{Kind: meta.Kind, Name: meta.Metadata.Name, JSON: data})
	return err
}

// parses reports whether the mode bgp takes the file that an advice has for it.
func parses(file *BGP) error {
	if file == nil {
		return nil
	}
	data, err := json.Marshal(file)
	if err == nil {
		_, err = routesbgp.Parse(data)
	}
	return err
}

func (p *player) Show(section string) (string, error) {
	a := Advise(p.Cluster, []string{hostGateway, topOfRack, vxlan, bgp})
	if err := parses(a.BGP); err != nil {
		return "", fmt.Errorf("the mode bgp does not take the advised file: %w", err)
	}
	if section == "want json" {
		data, err := json.MarshalIndent(a, "", "  ")
		return string(data) + "\n", err
	}
	var b strings.Builder
	err := a.Print(&b)
	return b.String(), err
}
