package credential

import (
	"context"
	"fmt"
	"net/http"

	authv1 "k8s.io/api/authorization/v1"
	v1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// Settings are what a cluster's control plane says to its nodes. Texts are YAML as they are in the ConfigMaps; "" if
// there is none.
type Settings struct {
	Kubelet string // kubelet-config: KubeletConfiguration, which kubeadm wrote for Linux
	Kubeadm string // kubeadm-config: ClusterConfiguration
	Proxy   string // kube-proxy: KubeProxyConfiguration
	Own     string // porthole: cluster.yaml

	PodSubnet, ServiceSubnet, DNSDomain string
	// Mode is how pods of different nodes reach each other, as the ConfigMap porthole says it; "" if it does not.
	Mode string
	// Version is that of the API server, such as v1.36.3.
	Version string
}

// ReadSettings reads the ConfigMaps that kubeadm keeps for nodes. Whoever has a token may read all of them; a node may
// not read that of kube-proxy, which is no error.
func (a *API) ReadSettings(ctx context.Context) (*Settings, error) {
	s := &Settings{}
	var version struct {
		GitVersion string `json:"gitVersion"`
	}
	if err := a.Do(ctx, http.MethodGet, "/version", nil, &version); err != nil {
		return nil, fmt.Errorf("reading the API server's version: %w", err)
	}
	s.Version = version.GitVersion

	for _, m := range []struct {
		name, key string
		into      *string
		optional  bool
	}{
		{"kubelet-config", "kubelet", &s.Kubelet, false},
		{"kubeadm-config", "ClusterConfiguration", &s.Kubeadm, false},
		{"kube-proxy", "config.conf", &s.Proxy, true},
		{"porthole", "cluster.yaml", &s.Own, true},
	} {
		var object v1.ConfigMap
		err := a.Do(ctx, http.MethodGet, "/api/v1/namespaces/kube-system/configmaps/"+m.name, nil, &object)
		code := Code(err)
		switch {
		case m.optional && (code == http.StatusNotFound || code == http.StatusForbidden):
		case code == http.StatusUnauthorized:
			return nil, &Problem{Check: "Discovery",
				Text: "the API server refuses the token: it is unknown there, or has expired",
				Cure: "kubeadm token create --print-join-command"}
		case code == http.StatusNotFound:
			return nil, &Problem{Check: "Discovery",
				Text: fmt.Sprintf("this cluster was not made by kubeadm: there is no ConfigMap %s in kube-system",
					m.name), Cure: "kubeadm init phase upload-config all"}
		case err != nil:
			return nil, fmt.Errorf("reading ConfigMap %s: %w", m.name, err)
		}
		*m.into = object.Data[m.key]
	}
	return s, s.parse()
}

// parse takes the ranges from kubeadm's configuration; those of the ConfigMap porthole win.
func (s *Settings) parse() error {
	var doc struct {
		Networking struct {
			PodSubnet     string `json:"podSubnet"`
			ServiceSubnet string `json:"serviceSubnet"`
			DNSDomain     string `json:"dnsDomain"`
		} `json:"networking"`
	}
	if err := yaml.Unmarshal([]byte(s.Kubeadm), &doc); err != nil {
		return fmt.Errorf("reading ConfigMap kubeadm-config: %w", err)
	}
	s.PodSubnet = doc.Networking.PodSubnet
	s.ServiceSubnet = doc.Networking.ServiceSubnet
	s.DNSDomain = doc.Networking.DNSDomain

	var own struct {
		Mode          string `json:"mode"`
		PodSubnet     string `json:"podSubnet"`
		ServiceSubnet string `json:"serviceSubnet"`
	}
	if err := yaml.Unmarshal([]byte(s.Own), &own); err != nil {
		return fmt.Errorf("reading ConfigMap porthole: %w", err)
	}
	s.Mode = own.Mode
	if own.PodSubnet != "" {
		s.PodSubnet = own.PodSubnet
	}
	if own.ServiceSubnet != "" {
		s.ServiceSubnet = own.ServiceSubnet
	}
	return nil
}

// May asks the API server whether the client may do something. group is the API group, "" for the core.
func (a *API) May(ctx context.Context, verb, group, resource string) (bool, error) {
	review := authv1.SelfSubjectAccessReview{Spec: authv1.SelfSubjectAccessReviewSpec{
		ResourceAttributes: &authv1.ResourceAttributes{Verb: verb, Group: group, Resource: resource}}}
	review.APIVersion = "authorization.k8s.io/v1"
	review.Kind = "SelfSubjectAccessReview"
	if err := a.Do(ctx, http.MethodPost, "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", review,
		&review); err != nil {
		return false, fmt.Errorf("asking whether the node may %s %s: %w", verb, resource, err)
	}
	return review.Status.Allowed, nil
}

// Nodes lists all nodes.
func (a *API) Nodes(ctx context.Context) ([]v1.Node, error) {
	var list v1.NodeList
	if err := a.Do(ctx, http.MethodGet, "/api/v1/nodes?limit=500", nil, &list); err != nil {
		return nil, fmt.Errorf("listing nodes: %w", err)
	}
	return list.Items, nil
}
