package lab

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"porthole.dev/porthole/internal/testkit/wait"
)

const storePods = 3 // of each StatefulSet

// statefulSet has pods with a claim each, the volumes that an administrator made for them, and a service that gives
// them names in DNS.
func statefulSet(node, data string) string {
	out := fmt.Sprintf(statefulSetOf, node, data, storePods)
	for i := range storePods {
		out += fmt.Sprintf(storeVolume, node, i)
	}
	return out
}

const statefulSetOf = `
apiVersion: v1
kind: Service
metadata: {name: store-%[1]s}
spec: {clusterIP: None, selector: {app: store-%[1]s}, ports: [{port: 8080}]}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: store-%[1]s}
spec:
  replicas: %[3]d
  serviceName: store-%[1]s
  selector: {matchLabels: {app: store-%[1]s}}
  persistentVolumeClaimRetentionPolicy: {whenDeleted: Delete}
  template:
    metadata: {labels: {app: store-%[1]s}}
    spec:
      terminationGracePeriodSeconds: 1
      containers:
      - name: app
        image: porthole/testapp:1
        args: [serve, --http, ':8080']
        volumeMounts: [{name: data, mountPath: '%[2]s'}]
  volumeClaimTemplates:
  - metadata: {name: data}
    spec: {accessModes: [ReadWriteOnce], storageClassName: lab, resources: {requests: {storage: 1Gi}}}
`

const storeVolume = `
---
apiVersion: v1
kind: PersistentVolume
metadata: {name: store-%[1]s-%[2]d}
spec:
  capacity: {storage: 1Gi}
  accessModes: [ReadWriteOnce]
  persistentVolumeReclaimPolicy: Retain
  storageClassName: lab
  claimRef: {namespace: default, name: data-store-%[1]s-%[2]d}
  csi: {driver: lab.storage.porthole.dev, volumeHandle: store-%[1]s-%[2]d}
  nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: [{key: topology.lab.storage.porthole.dev/node, operator: In, values: [%[1]s]}]}]}}
`

// ordered is the StatefulSet of a node.
type ordered struct{ storageCase }

func (s ordered) name(i int) string { return fmt.Sprintf("store-%s-%d", s.node, i) }

// wantKept waits for the pods, whose volumes have what each wrote into its own.
func (s ordered) wantKept(t *testing.T) {
	t.Helper()
	for i := range storePods {
		waitPod(t, s.name(i), podWait, isReady)
		if out := kubectl(t, "exec", s.name(i), "--", s.app, "cat", s.file()); strings.TrimSpace(out) != s.name(i) {
			t.Errorf("%s reads %q", s.name(i), out)
		}
	}
}

// wantOrder checks that no pod was created before the previous one was Ready. The API gives both times in whole
// seconds.
func (s ordered) wantOrder(t *testing.T) {
	t.Helper()
	for i := 1; i < storePods; i++ {
		var before, pod v1.Pod
		object(t, &before, "pod", s.name(i-1))
		object(t, &pod, "pod", s.name(i))
		at := slices.IndexFunc(before.Status.Conditions, func(c v1.PodCondition) bool { return c.Type == v1.PodReady })
		if at < 0 || pod.CreationTimestamp.Time.Before(before.Status.Conditions[at].LastTransitionTime.Time) {
			t.Errorf("%s was made at %v, %s has the conditions %+v", pod.Name, pod.CreationTimestamp, before.Name,
				before.Status.Conditions)
		}
	}
}

// wantNames: each pod finds the others by their names in DNS, also after they have got other addresses.
func (s ordered) wantNames(t *testing.T) {
	t.Helper()
	for i := range storePods {
		asked := (i + 1) % storePods
		name := fmt.Sprintf("%s.store-%s.default.svc.cluster.local", s.name(asked), s.node)
		wait.NoError(t, podWait, "the name of "+s.name(asked), func() error {
			var pod v1.Pod
			object(t, &pod, "pod", s.name(asked))
			out, err := kubectlErr("exec", s.name(i), "--", s.app, "resolve", name)
			if err == nil && strings.TrimSpace(out) != pod.Status.PodIP {
				err = fmt.Errorf("%s finds %s at %q, it is at %s", s.name(i), name, strings.TrimSpace(out),
					pod.Status.PodIP)
			}
			return err
		})
	}
}
