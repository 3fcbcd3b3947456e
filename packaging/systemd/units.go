// Package systemd has the systemd units of a Linux node: those of the packages, and those that `porthole join` writes
// where no package did.
package systemd

import (
	_ "embed"
	"strings"
)

var (
	//go:embed units/kubelet.service
	kubelet string
	//go:embed units/20-porthole.conf
	dropIn string
	//go:embed units/porthole-routes.service
	routes string
)

// Names of the units, as paths below a folder of units.
const (
	Kubelet = "kubelet.service"
	DropIn  = "kubelet.service.d/20-porthole.conf"
	Routes  = "porthole-routes.service"
)

// Environment is the file from which both units take the variables of `porthole join --env`.
const Environment = "/etc/kubernetes/porthole.env"

// Folders in which distributions have files with variables of units.
const (
	DefaultsDebian = "/etc/default"
	DefaultsRPM    = "/etc/sysconfig"
)

// Units returns the units by name. porthole is the path of the program that they start; with "" they start
// /usr/bin/porthole and /usr/bin/kubelet, as packages have them. defaults is DefaultsDebian or DefaultsRPM.
func Units(porthole, defaults string) map[string][]byte {
	pairs := []string{"@DEFAULTS@", defaults}
	if porthole != "" {
		pairs = append(pairs, "=/usr/bin/porthole", "="+porthole, "=/usr/bin/kubelet", "="+porthole+" kubelet")
	}
	filled := strings.NewReplacer(pairs...)
	out := map[string][]byte{}
	for name, text := range map[string]string{Kubelet: kubelet, DropIn: dropIn, Routes: routes} {
		out[name] = []byte(filled.Replace(text))
	}
	return out
}
