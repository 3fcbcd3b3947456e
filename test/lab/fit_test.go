package lab

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// poolKind defines Calico's IPPool as far as the API server has to know it.
const poolKind = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: ippools.crd.projectcalico.org}
spec:
  group: crd.projectcalico.org
  names: {kind: IPPool, listKind: IPPoolList, plural: ippools, singular: ippool}
  scope: Cluster
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
`

const pool = `
apiVersion: crd.projectcalico.org/v1
kind: IPPool
metadata: {name: default-ipv4-ippool}
spec: {cidr: 10.244.0.0/16, ipipMode: CrossSubnet, vxlanMode: Never}
`

const flannelMap = `
apiVersion: v1
kind: ConfigMap
metadata: {name: kube-flannel-cfg, namespace: kube-system}
data:
  net-conf.json: |
    {"Network": "10.244.0.0/16", "Backend": {"Type": %q, "VNI": 4096, "Port": 4789}}
`

// advice is what `porthole routes --from-cluster -o json` prints.
type advice struct {
	Mode   string
	Why    string
	Flags  []string
	Change []string
	Unread []any
}

func fromCluster(t *testing.T) (a advice) {
	t.Helper()
	out, err := command(time.Minute, porthole, "routes", "--from-cluster", "--kubeconfig",
		filepath.Join(dir, "kubeconfig"), "-o", "json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(out), &a); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if len(a.Unread) > 0 {
		t.Errorf("an administrator could not read %v", a.Unread)
	}
	return a
}

// TestFromCluster asks a real API server which mode fits: without any network plugin, with kinds that are not defined,
// with Calico's pools, and with flannel's configuration.
func TestFromCluster(t *testing.T) {
	if a := fromCluster(t); a.Mode != "host-gateway" || !slices.Contains(a.Flags, "--service-cidr=10.96.0.0/16") {
		t.Errorf("the cluster as it is: %+v", a)
	}

	t.Run("calico", func(t *testing.T) {
		apply(t, poolKind)
		kubectl(t, "wait", "--for=condition=Established", "--timeout=30s", "crd/ippools.crd.projectcalico.org")
		apply(t, pool)
		if a := fromCluster(t); a.Mode != "" || !strings.Contains(a.Why, "IP-in-IP") || len(a.Change) == 0 {
			t.Errorf("with a pool of IP-in-IP: %+v", a)
		}
	})
	for backend, mode := range map[string]string{"vxlan": "vxlan", "wireguard": ""} {
		t.Run("flannel "+backend, func(t *testing.T) {
			apply(t, fmt.Sprintf(flannelMap, backend))
			if a := fromCluster(t); a.Mode != mode {
				t.Errorf("got %+v, want mode %q", a, mode)
			}
		})
	}
}
