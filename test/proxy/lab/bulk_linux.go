package lab

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"porthole.dev/porthole/internal/testkit"
)

// bulkAddrs is the half of ServiceRange from which the API server chooses none while there are others: it prefers the
// upper part of a range, and the smallest 256 addresses are left to those who choose by hand.
var bulkAddrs = netip.MustParseAddr("10.96.1.0")

// etcdOps is how many operations etcd takes in one transaction (its --max-txn-ops).
const etcdOps = 128

// Bulk writes services, each with a slice of ready backends that are on no node of the lab, straight into etcd: the API
// server takes a hundred services a second, etcd thousands. The host sees them; names are prefix and a number.
func (h *Host) Bulk(ctx context.Context, prefix string, n int, backends func(i int) []netip.Addr) error {
	client := &http.Client{Timeout: 30 * time.Second,
		Transport: &http.Transport{DialContext: testkit.DialIn(h.lab.netns("sw"))}}
	defer client.CloseIdleConnections()

	var ops []object
	put := func(folder string, o metav1.Object) error {
		value, err := json.Marshal(o)
		if err != nil {
			return err
		}
		key := []byte("/registry/" + folder + "/" + o.GetName())
		ops = append(ops, object{"requestPut": object{"key": key, "value": value}})
		if len(ops) < etcdOps {
			return nil
		}
		err = transaction(ctx, client, ops)
		ops = nil
		return err
	}

	addr := bulkAddrs
	for i := range n {
		s, e := h.bulkService(fmt.Sprintf("%s%d", prefix, i), addr, backends(i))
		err := errors.Join(put("ipaddresses", bulkAddress(s)), put("services/specs/"+s.Namespace, s),
			put("endpointslices/"+e.Namespace, e))
		if err != nil {
			return err
		}
		addr = addr.Next()
	}

	return transaction(ctx, client, ops)
}

// bulkService returns a service with every field that the API server would have filled in.
func (h *Host) bulkService(name string, addr netip.Addr, backends []netip.Addr) (*corev1.Service,
	*discoveryv1.EndpointSlice) {
	s := Service(name, Port("p", "tcp", 80, 80))
	single := corev1.IPFamilyPolicySingleStack
	everywhere := corev1.ServiceInternalTrafficPolicyCluster
	s.Spec.ClusterIP = addr.String()
	s.Spec.ClusterIPs = []string{addr.String()}
	s.Spec.IPFamilies = []corev1.IPFamily{corev1.IPv4Protocol}
	s.Spec.IPFamilyPolicy = &single
	s.Spec.InternalTrafficPolicy = &everywhere
	s.Spec.SessionAffinity = corev1.ServiceAffinityNone
	e := Slice(s, "", On("", backends...)...)
	s.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Service"}
	e.TypeMeta = metav1.TypeMeta{APIVersion: "discovery.k8s.io/v1", Kind: "EndpointSlice"}
	for _, m := range []*metav1.ObjectMeta{&s.ObjectMeta, &e.ObjectMeta} {
		m.Labels = h.labelled(m.Labels)
		m.UID = types.UID(name)
		m.CreationTimestamp = metav1.Now()
	}
	return s, e
}

// bulkAddress records that an address is allocated to a service. Without it the API server would notice, repair it and
// write an event for each service, for seconds and on the processors that something is being measured on.
func bulkAddress(s *corev1.Service) *networkingv1.IPAddress {
	return &networkingv1.IPAddress{
		TypeMeta: metav1.TypeMeta{APIVersion: "networking.k8s.io/v1", Kind: "IPAddress"},
		ObjectMeta: metav1.ObjectMeta{Name: s.Spec.ClusterIP, UID: s.UID + "-address", CreationTimestamp: metav1.Now(),
			Labels: map[string]string{
				networkingv1.LabelIPAddressFamily: string(corev1.IPv4Protocol),
				networkingv1.LabelManagedBy:       "ipallocator.k8s.io"}},
		Spec: networkingv1.IPAddressSpec{ParentRef: &networkingv1.ParentReference{Resource: "services",
			Namespace: s.Namespace, Name: s.Name}},
	}
}

// transaction uses etcd's JSON gateway.
func transaction(ctx context.Context, client *http.Client, ops []object) error {
	if len(ops) == 0 {
		return nil
	}
	body, err := json.Marshal(object{"success": ops})
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, testkit.EtcdURL+"/v3/kv/txn", bytes.NewReader(body))
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return fmt.Errorf("writing to etcd: %w", err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("writing to etcd: status %d: %.200s", resp.StatusCode, answer)
	}
	return err
}
