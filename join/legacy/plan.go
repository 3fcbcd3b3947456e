package legacy

import (
	"slices"
	"strings"
)

// kubeletSettings are fields that are flags of the kubelet today.
var kubeletSettings = map[string]string{
	"maxpods": "max-pods", "gchighthreshold": "image-gc-high-threshold", "gclowthreshold": "image-gc-low-threshold",
	"dnsserviceip": "cluster-dns",
}

// setting decides about a field of kubernetesConfig that a node uses, and reports whether it is one.
func (i *importer) setting(f *field, name string, pools []*Pool) bool {
	if flag, is := strings.CutPrefix(name, "kubeletconfig/"); is {
		i.kubeletFlag(f, strings.TrimLeft(flag, "-"), pools)
		return true
	}
	if flag := kubeletSettings[name]; flag != "" {
		f.What, f.Text = Used, "the kubelet's --"+flag
		setFlag(pools, flag, f.plain)
		return true
	}

	switch name {
	case "clustersubnet":
		f.What, f.Text = Used, "network.podSubnet"
		for _, p := range pools {
			p.Network.PodSubnet = f.plain
		}
	case "servicecidr":
		f.What, f.Text = Used, "network.serviceSubnet"
		for _, p := range pools {
			p.Network.ServiceSubnet = f.plain
		}
	case "networkplugin":
		f.plugin(pools)
	case "networkpolicy":
		f.What = Dropped
		f.Text = "Porthole's node has no network policies of its own"
		switch strings.ToLower(f.plain) {
		case "", "none":
			f.Text = "nothing is asked for"
		case "calico", "azure", "cilium", "antrea":
			f.What = Refused
			f.Text = f.plain + " is not brought to Windows nodes by Porthole: policies do not hold there"
		}
	case "containerruntime":
		f.What, f.Text = Used, "containerd"
		if strings.ToLower(f.plain) != "containerd" {
			f.What = Refused
			f.Text = f.plain + " is no container runtime of Kubernetes since 1.24: nodes get containerd"
		}
	case "enablerbac":
		f.What, f.Text = Dropped, "always so"
		if f.plain != "true" {
			f.What = Refused
			f.Text = "joining needs RBAC: every kubeadm cluster has it"
		}
	default:
		return false
	}
	return true
}

// plugin chooses the mode of the pod network.
func (f *field) plugin(pools []*Pool) {
	mode, why := "", ""

	switch strings.ToLower(f.plain) {
	case "", "kubenet":
		mode = "host-gateway"
		why = "routes between nodes, as kubenet had them from Azure's route table"
	case "flannel":
		f.What = Used
		f.Text = "network.mode is left out: join takes the one that the new cluster declares; " +
			"flannel's backend host-gw is host-gateway, its vxlan is vxlan"
		for _, p := range pools {
			p.Network.Mode = ""
		}
		return
	case "azure", "cilium", "antrea":
		for _, p := range pools {
			p.Network.Mode = ""
		}
		f.What = Refused
		f.Text = f.plain +
			" has programs of its own for Windows nodes, which join does not install: give the new cluster one of the networks of `porthole join --network`"
		return
	default:
		f.What = Refused
		f.Text = "not known: give network.mode one of those of `porthole join --network`"
		return
	}
	f.What, f.Text = Used, "network.mode "+mode+": "+why
	for _, p := range pools {
		p.Network.Mode = mode
	}
}

// goneFlags are flags of kubelets that these documents were made for, with what replaced them.
var goneFlags = map[string]string{
	"network-plugin":                  "the container runtime calls CNI plugins",
	"cni-bin-dir":                     "containerd's configuration has it",
	"cni-conf-dir":                    "`porthole routes --cni-conf-dir`",
	"pod-infra-container-image":       "containerd.sandboxImage",
	"container-runtime":               "always a runtime with CRI",
	"image-pull-progress-deadline":    "containerd's configuration has it",
	"non-masquerade-cidr":             "network.podSubnet and network.serviceSubnet",
	"azure-container-registry-config": "--image-credential-provider-config of upstream's kubelet: credentials are imagePullSecrets here",
	"cloud-config":                    "a cloud controller in the cluster",
	"allow-privileged":                "Pod Security of namespaces",
	"keep-terminated-pod-volumes":     "volumes of ended pods are removed",
	"enable-server":                   "always on",
	"cadvisor-port":                   "figures come from the container runtime",
	"require-kubeconfig":              "always so",
	"api-servers":                     "--kubeconfig, which join writes",
	"hairpin-mode":                    "the CNI plugin's setting",
	"log-dir":                         "--log-file",
	"docker-endpoint":                 "--container-runtime-endpoint of containerd",
	"kubeconfig":                      "join writes it",
	"hostname-override":               "`porthole join --node-name`",
	"node-ip":                         "`porthole join --node-ip`",
}

// kubeletFlag decides about a flag of the kubelet. name is in lower case: flags are.
func (i *importer) kubeletFlag(f *field, name string, pools []*Pool) {
	if instead := goneFlags[name]; instead != "" {
		f.What = Dropped
		f.Text = "no flag of the kubelet any more, or set by join: " + instead
		return
	}
	known, withoutEffect := i.flag(name)
	switch {
	case !known:
		f.What, f.Text = Unknown, "the kubelet has no flag --"+name
	case withoutEffect:
		f.What = Dropped
		f.Text = "the kubelet takes --" + name + ", which has no effect"
	default:
		f.What, f.Text = Used, "the kubelet's --"+name
		setFlag(pools, name, f.plain)
	}
}

func setFlag(pools []*Pool, name, value string) {
	for _, p := range pools {
		p.KubeletFlags[name] = value
	}
}

// ofPool decides about a field of a pool of Windows machines.
func (i *importer) ofPool(f *field, pools []*Pool) {
	name := strings.TrimPrefix(f.low, "properties/agentpoolprofiles/")
	if setting, config := strings.CutPrefix(name, "kubernetesconfig/"); config && i.setting(f, setting, pools) {
		return
	}
	if strings.HasPrefix(name, "customnodelabels/") {
		f.label(pools[0])
		return
	}
	switch name {
	case "name":
		f.What = Used
		f.Text = "names of the nodes: " + strings.Join(pools[0].Machine, ", ")
	case "count":
		f.What, f.Text = Used, "one command for each machine"
	case "ostype":
		f.What, f.Text = Used, "a pool of Windows machines"
	default:
		f.byRule()
	}
}

// ownLabels are labels of Kubernetes that a node may give itself;
// https://kubernetes.io/docs/reference/access-authn-authz/admission-controllers/#noderestriction.
var ownLabels = []string{"kubernetes.io/hostname", "kubernetes.io/arch", "kubernetes.io/os", "beta.kubernetes.io/arch",
	"beta.kubernetes.io/os",
	"beta.kubernetes.io/instance-type", "node.kubernetes.io/instance-type", "topology.kubernetes.io/region",
	"topology.kubernetes.io/zone",
	"failure-domain.beta.kubernetes.io/region", "failure-domain.beta.kubernetes.io/zone"}

// label decides about a label of the nodes. The names of labels have capitals, so they come from the path as it is
// written.
func (f *field) label(p *Pool) {
	key := f.Path[strings.LastIndex(f.Path, "/")+1:]
	key = strings.ReplaceAll(key, "~1", "/")
	domain, _, _ := strings.Cut(key, "/")
	of := func(parent string) bool { return domain == parent || strings.HasSuffix(domain, "."+parent) }

	allowed := !strings.Contains(key, "/") || !of("kubernetes.io") && !of("k8s.io") || of("node.kubernetes.io") ||
		of("kubelet.kubernetes.io") || slices.Contains(ownLabels, key)
	if allowed {
		f.What, f.Text = Used, "the kubelet's --node-labels"
		p.Labels = append(p.Labels, key+"="+f.plain)
		return
	}
	f.What = Used
	f.Text = "a node may not give itself this label: the command for an administrator is below"
	for _, m := range p.Machine {
		p.Kubectl = append(p.Kubectl, "kubectl label node "+m+" "+key+"="+f.plain)
	}
}
