package legacy

import (
	"fmt"
	"slices"
	"strings"
)

// scripts are parameters of Microsoft's scripts by the script's name in lower case, from
// https://github.com/microsoft/SDN/tree/master/Kubernetes/windows, all versions. The parameters of PowerShell have no
// capitals that matter.
var scripts = map[string]map[string]Leaf{
	"start-kubelet.ps1": {
		"clustercidr": {What: Used,
			Text: "`porthole join --pod-network-cidr`; read from the cluster if it is not given"},
		"servicecidr": {What: Used,
			Text: "`porthole join --service-cidr`; read from the cluster if it is not given"},
		"kubednsserviceip": {What: Used,
			Text: "`porthole join --kubelet-extra-args cluster-dns=ADDRESS`; kubeadm's kubelet-config has it"},
		"kubednssuffix": {What: Used, Text: "clusterDomain of kubeadm's kubelet-config"},
		"interfacename": {What: Used, Text: "`porthole join --nic`"},
		"logdir": {What: Dropped,
			Text: "services write to ProgramData\\Porthole\\logs; by hand: --log-file"},
		"kubeletfeaturegates": {What: Used,
			Text: "featureGates of the kubelet's configuration, with `porthole join --patches`"},
		"networkmode": {What: Used,
			Text: "`porthole join --network`: L2Bridge is host-gateway, Overlay is vxlan"},
		"networkname": {What: Dropped, Text: "the HNS network is called porthole"},
		"isolationtype": {What: Refused,
			Text: "Porthole has no Hyper-V isolation: containers are isolated as processes"},
		"registeronly": {What: Dropped, Text: "the kubelet registers and waits for its pod range by itself"},
	},
	"start-kubeproxy.ps1": {
		"logdir": {What: Dropped, Text: "services write to ProgramData\\Porthole\\logs; by hand: --log-file"},
		"networkname": {What: Dropped,
			Text: "the service proxy finds the HNS network by itself; by hand: KUBE_NETWORK"},
		"networkmode": {What: Dropped, Text: "the service proxy reads the network's type from HNS"},
		"sourcevip":   {What: Used, Text: "winkernel.sourceVip of kube-proxy's configuration"},
		"usedsr":      {What: Used, Text: "winkernel.enableDSR of kube-proxy's configuration"},
	},
	"addroutes.ps1": {
		"masterip": {What: Dropped,
			Text: "`porthole routes` keeps the routes to all nodes, also after a reboot and when nodes come and go"},
		"gateway": {What: Dropped, Text: "`porthole routes` keeps the routes to all nodes, and the host's own"},
	},
}

// variables are those of the environment that the first Windows nodes were set up with.
var variables = map[string]Leaf{
	"container_network": {What: Dropped,
		Text: "no effect: the container runtime calls the CNI plugin of its configuration, which `porthole routes` writes"},
	"kube_network": {What: Used, Text: "our kube-proxy honours it; without it the HNS network is found"},
	"interface_to_add_service_ip": {What: Used,
		Text: "our kube-proxy honours it in the mode userspace; in the mode kernelspace it has no effect"},
}

// CommandLine says what becomes of a command line of the old guides: a script, kubelet.exe or kube-proxy.exe with its
// flags, or a variable as PowerShell or cmd set it. flag knows the flags of the program of that name.
func CommandLine(words []string, flag func(program, name string) (known, withoutEffect bool)) ([]Leaf, error) {
	if len(words) == 0 {
		return nil, fmt.Errorf("give a command line, for example start-kubelet.ps1 -ClusterCidr 192.168.0.0/16")
	}
	program := strings.ToLower(words[0])
	program = program[strings.LastIndexAny(program, `/\`)+1:]
	if name, value, is := variable(words); is {
		l, known := variables[strings.ToLower(name)]
		if !known {
			l = Leaf{What: Unknown, Text: "no program of the old guides had this variable"}
		}
		l.Path, l.Value = name, value
		return []Leaf{l}, nil
	}

	// start.ps1 hands its parameters to the other scripts.
	parameters, script := scripts[program]
	if program == "start.ps1" || program == "install.ps1" {
		script, parameters = true, map[string]Leaf{}
		for _, name := range []string{"addroutes.ps1", "start-kubeproxy.ps1", "start-kubelet.ps1"} {
			for p, l := range scripts[name] {
				parameters[p] = l
			}
		}
		parameters["managementip"] = Leaf{What: Used, Text: "`porthole join --node-ip`"}
	}
	program = strings.TrimSuffix(program, ".exe")
	if program == "proxy" { // the name in the first guide
		program = "kube-proxy"
	}
	if !script && program != "kubelet" && program != "kube-proxy" {
		known := []string{"start.ps1", "kubelet.exe", "kube-proxy.exe"}
		for name := range scripts {
			known = append(known, name)
		}
		slices.Sort(known)
		return nil, fmt.Errorf("%s is none of the old guides' programs: %s, or a variable as $env:NAME=\"value\"",
			words[0], strings.Join(known, ", "))
	}

	var list []Leaf
	for n := 1; n < len(words); n++ {
		name, value, joined := strings.Cut(words[n], "=")
		if script && !joined {
			name, value, joined = strings.Cut(words[n], ":")
		}
		if !strings.HasPrefix(name, "-") {
			return nil, fmt.Errorf("%q is no flag: one like -ClusterCidr or --kubeconfig belongs in front of it",
				words[n])
		}
		if !joined && n+1 < len(words) && !strings.HasPrefix(words[n+1], "-") {
			n++
			value = words[n]
		}
		l := ofFlag(program, strings.ReplaceAll(strings.TrimLeft(name, "-"), "_", "-"), parameters, script, flag)
		l.Path, l.Value = name, strings.Trim(value, `"'`)
		list = append(list, l)
	}
	return list, nil
}

// ofFlag says what becomes of one flag or parameter.
func ofFlag(program, name string, parameters map[string]Leaf, script bool,
	flag func(program, name string) (known, withoutEffect bool)) Leaf {
	if script {
		l, known := parameters[strings.ToLower(name)]
		if !known {
			return Leaf{What: Unknown, Text: "no version of this script had such a parameter"}
		}
		return l
	}
	known, withoutEffect := flag(program, name)
	switch instead := goneFlags[name]; {
	case known && withoutEffect && instead != "":
		return Leaf{What: Dropped, Text: "accepted, and has no effect: " + instead}
	case known && withoutEffect:
		return Leaf{What: Dropped, Text: "accepted, and has no effect"}
	case known:
		return Leaf{What: Used, Text: "our " + program + " has the same flag"}
	case instead != "":
		return Leaf{What: Dropped, Text: instead}
	}
	return Leaf{What: Unknown, Text: program + " has no such flag"}
}

// variable reads $env:NAME="value" or NAME=value, in one word or several.
func variable(words []string) (name, value string, is bool) {
	text := strings.Join(words, " ")
	text, ps := strings.CutPrefix(text, "$env:")
	text, set := strings.CutPrefix(text, "set ")
	name, value, is = strings.Cut(text, "=")
	name = strings.TrimSpace(name)
	if !is || strings.ContainsAny(name, ` -/\.`) && !ps && !set {
		return "", "", false
	}
	return name, strings.Trim(strings.TrimSpace(value), `"'`), true
}
