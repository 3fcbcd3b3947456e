package legacy

import (
	"bytes"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// flag stands for the kubelet's flags.
func flag(name string) (known, withoutEffect bool) {
	return slices.Contains([]string{"max-pods", "v", "pod-infra-container-image"},
		name), name == "pod-infra-container-image"
}

// seed is the document of the guide for Windows on Kubernetes 1.9.
const seed = `{"apiVersion": "vlabs", "properties": {
 "orchestratorProfile": {"orchestratorType": "Kubernetes", "orchestratorVersion": "1.11.1",
  "kubernetesConfig": {"networkPolicy": "none", "enableAggregatedAPIs": true, "enableRbac": true}},
 "masterProfile": {"count": 3, "dnsPrefix": "kubernetes-windows", "vmSize": "Standard_D2_v3"},
 "agentPoolProfiles": [{"name": "windowspool1", "count": 3, "vmSize": "Standard_D2_v3", "availabilityProfile": "AvailabilitySet", "osType": "Windows"}],
 "windowsProfile": {"adminUsername": "me", "adminPassword": "SECRET"},
 "linuxProfile": {"adminUsername": "azure", "ssh": {"publicKeys": [{"keyData": "SECRET"}]}},
 "servicePrincipalProfile": {"clientId": "", "secret": ""}}}`

// count returns how many values a document has that hold no others.
func count(v any) (n int) {
	switch v := v.(type) {
	case map[string]any:
		for _, each := range v {
			n += count(each)
		}
	case []any:
		for _, each := range v {
			n += count(each)
		}
	}
	return max(n, 1)
}

// imported reads a document and checks that each of its values has one outcome, and that no secret is printed or
// written.
func imported(t *testing.T, document []byte) Import {
	t.Helper()
	got, err := Cluster(document, flag)
	if err != nil {
		t.Fatal(err)
	}
	var doc any
	if err := json.Unmarshal(document, &doc); err != nil {
		t.Fatal(err)
	}
	paths := map[string]bool{}
	for _, l := range got.Leaves {
		if paths[l.Path] || !slices.Contains(Outcomes, l.What) || l.Text == "" {
			t.Errorf("%+v is there twice, or has no outcome", l)
		}
		paths[l.Path] = true
	}
	if len(got.Leaves) != count(doc) {
		t.Errorf("%d leaves of %d", len(got.Leaves), count(doc))
	}

	var out bytes.Buffer
	if err := got.Print(&out, "", Target{}); err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(got)
	if err != nil || strings.Contains(out.String()+string(text), "SECRET") {
		t.Errorf("%v; a secret is printed:\n%s", err, out.String())
	}
	return got
}

// leaf returns the leaf at a path.
func (i Import) leaf(t *testing.T, at string) Leaf {
	t.Helper()
	for _, l := range i.Leaves {
		if l.Path == at {
			return l
		}
	}
	t.Fatalf("no leaf at %s", at)
	return Leaf{}
}

// TestEveryField: testdata has documents with every field of the type trees of acs-engine (2019-03) and aks-engine
// (2023-10). None is unknown but the flag that no kubelet had.
// Row 1.118.
func TestEveryField(t *testing.T) {
	for _, name := range []string{"acs-engine", "aks-engine"} {
		t.Run(name, func(t *testing.T) {
			document, err := os.ReadFile("testdata/" + name + ".json")
			if err != nil {
				t.Fatal(err)
			}
			got := imported(t, document)
			if len(got.Leaves) < 400 {
				t.Errorf("only %d leaves", len(got.Leaves))
			}
			for _, l := range got.Leaves {
				if l.What == Unknown && !strings.HasSuffix(l.Path, "--no-such") {
					t.Errorf("%s is unknown", l.Path)
				}
				if strings.HasPrefix(l.Text, "nothing of a node") {
					t.Errorf("no rule fits %s", l.Path)
				}
			}

			const config = "properties/orchestratorProfile/kubernetesConfig/"
			for at, want := range map[string]Outcome{
				config + "maxPods": Used, config + "kubeletConfig/--no-such": Unknown,
				config + "kubeletConfig/--network-plugin": Dropped,
				config + "containerRuntime":               Refused, config + "addons[0]/name": Cloud,
				"properties/agentPoolProfiles[1]/count": Cloud,
				"properties/agentPoolProfiles[0]/count": Used, "properties/masterProfile/count": Cloud,
				"location": Cloud,
				"properties/windowsProfile/windowsDockerVersion": Dropped,
			} {
				if l := got.leaf(t, at); l.What != want {
					t.Errorf("%+v, want %s", l, want)
				}
			}
			p := got.Pools[0]
			if len(got.Pools) != 1 || p.Count != 3 || p.KubeletFlags["max-pods"] != "50" ||
				p.KubeletFlags["v"] != "4" || p.KubeletFlags["cluster-dns"] != "text" ||
				p.Network.Mode != "" || !slices.Contains(p.Labels, "example.com/team=b") || len(p.Kubectl) != 3 ||
				p.Kubectl[0] != "kubectl label node windowspool1-0 kubernetes.io/role=agent" {
				t.Errorf("pool %+v", p)
			}
		})
	}
}

// TestSeed: the document of the guide gives a file that reads back, and a command for each machine.
// Row 1.118.
func TestSeed(t *testing.T) {
	got := imported(t, []byte(seed))
	if l := got.leaf(t, "properties/windowsProfile/adminPassword"); l.Value != "<hidden>" || l.What != Cloud {
		t.Errorf("%+v", l)
	}
	for _, l := range got.Leaves {
		if l.What == Refused || l.What == Unknown {
			t.Errorf("%+v", l)
		}
	}

	p := got.Pools[0]
	if commands := p.Commands(p.File()); len(commands) != 3 ||
		commands[2] != "porthole.exe join --config windowspool1.yaml --node-name windowspool1-2 --token-file -" {
		t.Errorf("%q", commands)
	}
	text, err := p.Config(Target{})
	if err != nil {
		t.Fatal(err)
	}
	join, node, both := strings.Cut(text, "---\n")
	for kind, doc := range map[string]string{"JoinConfiguration": join, "NodeConfiguration": node} {
		var o map[string]any
		if err := yaml.UnmarshalStrict([]byte(doc), &o); err != nil || o["kind"] != kind || !both {
			t.Errorf("%v, %v in\n%s", err, o["kind"], doc)
		}
	}
}

// TestRefused: what cannot be as asked for, and documents that are none.
func TestRefused(t *testing.T) {
	for _, c := range []struct{ from, to, at string }{
		{`"Kubernetes"`, `"DCOS"`, "properties/orchestratorProfile/orchestratorType"},
		{`"enableRbac": true`, `"enableRbac": false`, "properties/orchestratorProfile/kubernetesConfig/enableRbac"},
		{`"networkPolicy": "none"`, `"networkPolicy": "calico"`,
			"properties/orchestratorProfile/kubernetesConfig/networkPolicy"},
		{`"adminUsername": "me"`, `"WindowsSku": "Datacenter-Core-1709-with-Containers-smalldisk"`,
			"properties/windowsProfile/WindowsSku"},
		{`"adminUsername": "me"`, `"windowsRuntimes": {"hypervRuntimes": [{"buildNumber": "17763"}]}`,
			"properties/windowsProfile/windowsRuntimes/hypervRuntimes[0]/buildNumber"},
	} {
		if l := imported(t, []byte(strings.Replace(seed, c.from, c.to, 1))).leaf(t, c.at); l.What != Refused {
			t.Errorf("%+v", l)
		}
	}
	if l := imported(t, []byte(strings.Replace(seed, `"count": 3, "vmSize"`, `"cuont": {}, "vmSize"`, 1))).
		leaf(t, "properties/agentPoolProfiles[0]/cuont"); l.What != Unknown {
		t.Errorf("%+v", l)
	}
	if got := imported(t,
		[]byte(strings.Replace(seed, `"adminUsername": "me"`, `"WindowsSku": "2019-Datacenter-Core-with-Containers"`,
			1))); got.Pools[0].Build != "17763" {
		t.Errorf("%+v", got.Pools[0])
	}
	for want, document := range map[string]string{"line 2: this is not JSON": "{\n\"a\": }",
		`apiVersion "v1"`: `{"apiVersion": "v1"}`, "more behind": seed + "{}", "line 1": ""} {
		if _, err := Cluster([]byte(document), flag); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// TestCommandLine: command lines of the guides, word by word.
// Row 1.114.
func TestCommandLine(t *testing.T) {
	flags := func(program, name string) (bool, bool) {
		known, withoutEffect := flag(name)
		return known || program == "kube-proxy" && name == "proxy-mode", withoutEffect
	}

	for line, want := range map[string]string{
		"./start-kubelet.ps1 -ClusterCidr 192.168.0.0/16":          "-ClusterCidr=192.168.0.0/16 used",
		`C:\k\start-kubelet.ps1 -RegisterOnly -Color red`:          "-RegisterOnly= dropped, -Color=red unknown",
		"start-kubelet.ps1 -IsolationType hyperv":                  "-IsolationType=hyperv refused",
		`$env:CONTAINER_NETWORK = "my net"`:                        "CONTAINER_NETWORK=my net dropped",
		"set KUBE_NETWORK=cbr0":                                    "KUBE_NETWORK=cbr0 used",
		"INTERFACE_TO_ADD_SERVICE_IP=vEthernet (HNS Internal NIC)": "INTERFACE_TO_ADD_SERVICE_IP=vEthernet (HNS Internal NIC) used",
		"PATH=x":              "PATH=x unknown",
		"cleanup.ps1 -x":      "cleanup.ps1 is none of the old guides' programs",
		"start-kubelet.ps1 x": `"x" is no flag`,
		"":                    "give a command line",

		`kubelet.exe --pod-infra-container-image="apprenda/pause" --api_servers=10.0.0.1 --v=3`: "--pod-infra-container-image=apprenda/pause dropped, --api_servers=10.0.0.1 dropped, --v=3 used",
		`.\proxy.exe --proxy-mode=userspace`:                                                    "--proxy-mode=userspace used",

		"AddRoutes.ps1 -MasterIp 10.1.2.3 -Gateway:10.1.3.1": "-MasterIp=10.1.2.3 dropped, -Gateway=10.1.3.1 dropped",
		"start.ps1 -masterIp 10.1.2.3 -clusterCIDR 10.0.0.0/8": "-masterIp=10.1.2.3 dropped, " +
			"-clusterCIDR=10.0.0.0/8 used",
	} {
		leaves, err := CommandLine(strings.Fields(line), flags)
		var got []string
		for _, l := range leaves {
			got = append(got, l.Path+"="+l.Value+" "+string(l.What))
		}
		if err != nil {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want %q", line, err, want)
			}
		} else if strings.Join(got, ", ") != want {
			t.Errorf("%s:\ngot  %s\nwant %s", line, strings.Join(got, ", "), want)
		}
	}
}
