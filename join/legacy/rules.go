package legacy

import (
	_ "embed"
	"path"
	"strings"
)

// fieldsText has the fields of each type of the documents, of acs-engine (2019-03) and aks-engine (2023-10) together,
// in lower case: a line has a type, then its fields; "=" gives the type of a field that has fields itself. Names below
// map are free, and anything may be below any.
//
//go:embed fields.txt
var fieldsText string

// types are the fields of fieldsText with their types, by type.
func types() map[string]map[string]string {
	all := map[string]map[string]string{}
	for line := range strings.Lines(fieldsText) {
		words := strings.Fields(line)
		fields := map[string]string{}
		for _, w := range words[1:] {
			name, of, _ := strings.Cut(w, "=")
			fields[name] = of
		}
		all[words[0]] = fields
	}
	return all
}

// exists reports whether a path in lower case, without indexes, is a field of a document, or one with nothing in it.
func exists(types map[string]map[string]string, at string) bool {
	of := "ContainerService"
	for name := range strings.SplitSeq(at, "/") {
		if of == "map" {
			of = ""
			continue
		}
		if of == "any" {
			return true
		}
		next, is := types[of][name]
		if !is {
			return false
		}
		of = next
	}
	return true
}

// rule says what becomes of the fields that match a pattern, which is a path without indexes, in lower case:
// encoding/json does not tell capitals apart. A * stands for any one name, and /** at the end for all below. Earlier
// rules win.
type rule struct {
	pattern string
	what    Outcome
	text    string
}

// hidden are the last names of fields that are never printed. https://github.com/Azure/acs-engine and aks-engine,
// pkg/api/vlabs/types.go.
var hidden = []string{"*password", "secret", "*privatekey", "*privatekeys", "keydata", "etcdencryptionkey", "publickey",
	"*insightskey", "extensionparameters", "configbundles"}

// rules are those of fields that need no more than a reason; plan.go has the fields that are used. Both type trees are
// covered: a test makes a document with every field of them.
var rules = []rule{
	{"properties/orchestratorprofile/openshiftconfig/**", Refused, "OpenShift has node programs of its own"},
	{"properties/orchestratorprofile/dcosconfig/**", Refused, "DC/OS is no Kubernetes"},
	{"properties/orchestratorprofile/**/addons/**", Cloud,
		"workloads of the cluster: deploy them with their own manifests"},
	{"properties/orchestratorprofile/**/components/**", Cloud, "programs of the control plane"},
	{"properties/orchestratorprofile/kubernetesconfig/containerdversion", Dropped,
		"the archive for Windows has containerd"},
	{"properties/orchestratorprofile/kubernetesconfig/windows*url", Dropped,
		"the archive for Windows has these programs"},
	{"properties/orchestratorprofile/kubernetesconfig/customwindowspackageurl", Dropped,
		"the archive for Windows has these programs"},
	{"properties/orchestratorprofile/kubernetesconfig/customkubebinaryurl", Dropped,
		"the archive for Windows has these programs"},
	{"properties/orchestratorprofile/kubernetesconfig/azurecni*", Dropped,
		"the archive for Windows has the CNI plugins"},
	{"properties/orchestratorprofile/kubernetesconfig/docker*", Dropped,
		"the container runtime is containerd: Kubernetes has no Docker since 1.24"},
	{"properties/orchestratorprofile/kubernetesconfig/mobyversion", Dropped,
		"the container runtime is containerd: Kubernetes has no Docker since 1.24"},
	{"properties/orchestratorprofile/kubernetesconfig/containerruntimeconfig/**", Dropped,
		"containerd's own configuration has such settings"},
	{"properties/orchestratorprofile/kubernetesconfig/enablepodsecuritypolicy", Dropped,
		"Kubernetes has no PodSecurityPolicy since 1.25: label namespaces for Pod Security"},
	{"properties/orchestratorprofile/kubernetesconfig/podsecuritypolicyconfig/**", Dropped,
		"Kubernetes has no PodSecurityPolicy since 1.25"},
	{"properties/orchestratorprofile/kubernetesconfig/enablesecurekubelet", Dropped,
		"always so: the kubelet asks the API server who may do what"},
	{"properties/orchestratorprofile/kubernetesconfig/kubereservedcgroup", Dropped, "Windows has no cgroups"},
	{"properties/orchestratorprofile/kubernetesconfig/kubeproxymode", Dropped,
		"for Linux nodes; on Windows the service proxy programs HNS"},
	{"properties/orchestratorprofile/kubernetesconfig/networkmode", Cloud, "Azure's plugin on Linux nodes"},
	{"properties/orchestratorprofile/kubernetesconfig/**", Cloud, "the control plane, Linux nodes or Azure"},
	{"properties/featureflags/enableipv6dualstack", Refused, "joining machines get IPv4 only so far"},
	{"properties/featureflags/enableipv6only", Refused, "pods have IPv4, or both families: never IPv6 alone"},
	{"properties/featureflags/**", Dropped, "of the deployment program itself"},
	{"properties/windowsprofile/windowsruntimes/hypervruntimes/**", Refused,
		"Porthole has no Hyper-V isolation: containers are isolated as processes"},
	{"properties/windowsprofile/windowsruntimes/default", Dropped, "containers are isolated as processes"},
	{"properties/windowsprofile/windowsdockerversion", Dropped,
		"the container runtime is containerd: Kubernetes has no Docker since 1.24"},
	{"properties/windowsprofile/*csiproxy*", Dropped,
		"CSI drivers for Windows run as HostProcess containers since Kubernetes 1.22"},
	{"properties/windowsprofile/alwayspullwindowspauseimage", Dropped, "containerd keeps the sandbox image"},
	{"properties/windowsprofile/sshenabled", Dropped, "Porthole needs no SSH and leaves the machine's as it is"},
	{"properties/windowsprofile/windowssecuretlsenabled", Dropped,
		"Porthole's programs speak TLS 1.2 and newer; the machine's settings stay"},
	{"properties/windowsprofile/enableautomaticupdates", Dropped, "Windows Update stays as the machine has it"},
	{"properties/windowsprofile/**", Cloud, "how Azure makes the machine"},
	{"properties/masterprofile/**", Cloud, "the control plane"},
	{"properties/agentpoolprofiles/kubernetesconfig/**", Cloud, "the control plane, Linux nodes or Azure"},
	{"properties/agentpoolprofiles/role", Cloud, "OpenShift's pools"},
	{"properties/agentpoolprofiles/**", Cloud, "how Azure makes the machines of the pool"},
	{"properties/linuxprofile/**", Cloud, "how Azure makes Linux machines"},
	{"properties/extensionprofiles/**", Cloud, "scripts that Azure runs on machines"},
	{"properties/serviceprincipalprofile/**", Cloud, "Azure's credentials"},
	{"properties/certificateprofile/**", Cloud, "the control plane's certificates"},
	{"properties/aadprofile/**", Cloud, "users of the API server"},
	{"properties/azprofile/**", Cloud, "Azure's account"},
	{"properties/customcloudprofile/**", Cloud, "Azure Stack"},
	{"properties/telemetryprofile/**", Cloud, "telemetry of the deployment program"},
	{"properties/provisioningstate", Cloud, "state of the deployment"},
	{"*/**", Cloud, "the group of resources in Azure"},
}

// matches reports whether a path in lower case, without indexes, fits a pattern.
func matches(pattern, at string) bool {
	base, below := strings.CutSuffix(pattern, "/**")
	if before, after, inside := strings.Cut(base, "/**/"); inside {
		// Names in between, or none.
		rest, is := strings.CutPrefix(at, before+"/")
		return is && (strings.HasPrefix(rest+"/", after+"/") || strings.Contains("/"+rest+"/", "/"+after+"/"))
	}
	want := strings.Split(base, "/")
	got := strings.Split(at, "/")
	if len(got) < len(want) || !below && len(got) != len(want) {
		return false
	}
	for i, w := range want {
		if ok, err := path.Match(w, got[i]); err != nil || !ok {
			return false
		}
	}
	return true
}

// isSecret reports whether the last name of a path is one that is never printed.
func isSecret(at string) bool {
	for name := range strings.SplitSeq(at, "/") {
		for _, pattern := range hidden {
			if ok, err := path.Match(pattern, name); err == nil && ok {
				return true
			}
		}
	}
	return false
}
