package credential

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
)

// Cluster is where a cluster's API server is, and by which authority its certificate can be verified.
type Cluster struct {
	Server string // https://10.0.0.1:6443
	CA     []byte // PEM
	// CAHash is the pin of the first certificate of CA.
	CAHash string
	// Skew is by how much this machine's clock is ahead of the API server's; SkewKnown reports whether that was seen.
	Skew      time.Duration
	SkewKnown bool
}

// Discovery says how to find a cluster by a token.
type Discovery struct {
	Endpoint string // host:port of the API server
	Token    Token
	Pins     Pins
	// SkipCA allows that there are no pins: whoever knows the token can then play the cluster.
	SkipCA bool

	// poll, patience: only tests set them.
	poll, patience time.Duration
}

const (
	pollPeriod    = 200 * time.Millisecond // how often cluster-info is read again
	tokenPatience = 10 * time.Second       // how long a new token may take to be signed; kubeadm waits for five minutes
	reachTries    = 3
	clusterInfo   = "/api/v1/namespaces/kube-public/configmaps/cluster-info"
)

// Discover reads the cluster's address and authority from its public ConfigMap cluster-info, and verifies them: by the
// signature made with the token's secret, and by the pins. The cluster is returned with an error too; it then holds
// the clock's difference only. Errors are of type *Problem, or wrap one.
func (d Discovery) Discover(ctx context.Context) (*Cluster, error) {
	server := "https://" + d.Endpoint
	open := anonymous(server, nil)
	defer open.Close()
	c := &Cluster{}
	// The first request trusts any server: only the signature and the pins say that the answer is
	// the cluster's.
	signed, err := d.signedInfo(ctx, open)
	c.Skew, c.SkewKnown = open.skew.by, open.skew.known
	if err != nil {
		return c, err
	}

	found, err := parseClusterInfo(signed)
	if err != nil {
		return c, err
	}
	// With pins the same is asked for again, over a connection that trusts only the pinned
	// authorities.
	if len(d.Pins) > 0 {
		if found, err = d.Pins.only(found); err != nil {
			return c, err
		}
		if err := d.again(ctx, server, found, signed); err != nil {
			return c, err
		}
	}
	c.Server = found.server
	c.CA = found.ca
	c.CAHash = Pin(found.list[0])
	return c, nil
}

// again reads cluster-info once more over verified TLS: it must say the same.
func (d Discovery) again(ctx context.Context, server string, found *info, signed string) error {
	pool := x509.NewCertPool()
	for _, cert := range found.list {
		pool.AddCert(cert)
	}
	verified := anonymous(server, pool)
	defer verified.Close()
	second, err := readInfo(ctx, verified)
	if err != nil {
		return err
	}
	if second.Data["kubeconfig"] != signed {
		return &Problem{Check: "Discovery",
			Text: "the cluster's information was another one when it was read again over verified TLS: somebody stands between this machine and the API server"}
	}
	return nil
}

// signedInfo returns the kubeconfig of cluster-info when it has a right signature by the token.
func (d Discovery) signedInfo(ctx context.Context, a *API) (string, error) {
	// Tests set shorter times.
	poll, patience := d.poll, d.patience
	if poll == 0 {
		poll, patience = pollPeriod, tokenPatience
	}
	// A server that does not answer is given up after reachTries; a token without a signature has
	// until patience is over.
	tries := 0
	for start := time.Now(); ; {
		m, err := readInfo(ctx, a)
		switch {
		case errors.Is(err, ErrUnreachable):
			if tries++; tries >= reachTries {
				return "", err
			}
		case err != nil:
			return "", err
		default:
			text := m.Data["kubeconfig"]
			jws := m.Data["jws-kubeconfig-"+d.Token.ID]
			if err := d.pinned(text); err != nil {
				return "", err
			}
			if jws != "" && !signedBy(jws, text, d.Token) {
				return "", &Problem{Check: "Discovery",
					Text: "failed to verify JWS signature of received cluster info object, can't trust this API Server: wrong token secret",
					Cure: "kubeadm token create --print-join-command"}
			}
			if jws != "" {
				return text, nil
			}
			if time.Since(start) >= patience {
				return "", &Problem{Check: "Discovery",
					Text: fmt.Sprintf(
						"token id %q is invalid for this cluster or it has expired. Use \"kubeadm token create\" on the control-plane node to create a new valid token", d.Token.ID)}
			}
		}

		select {
		case <-ctx.Done():
			return "", errors.Join(err, fmt.Errorf("looking for the cluster: %w", ctx.Err()))
		case <-time.After(poll):
		}
	}
}

// pinned tells at once, before the token is looked at, that this is another cluster.
func (d Discovery) pinned(text string) error {
	if len(d.Pins) == 0 || text == "" {
		return nil
	}
	found, err := parseClusterInfo(text)
	if err != nil {
		return err
	}
	_, err = d.Pins.only(found)
	return err
}

// readInfo reads the ConfigMap cluster-info. Errors after which a repetition may help wrap
// ErrUnreachable.
func readInfo(ctx context.Context, a *API) (*v1.ConfigMap, error) {
	var m v1.ConfigMap
	err := a.Do(ctx, http.MethodGet, clusterInfo, nil, &m)
	switch code := Code(err); {
	case code == http.StatusNotFound, code == http.StatusForbidden, code == http.StatusUnauthorized:
		return nil, &Problem{Check: "Discovery",
			Text: "this API server is not set up for kubeadm tokens (no cluster-info in kube-public)",
			Cure: "--discovery-file FILE, with a kubeconfig of the cluster"}
	case code >= http.StatusInternalServerError:
		return nil, fmt.Errorf("%w (%w)",
			&Problem{Check: "ApiServer", Text: fmt.Sprintf("%s answers %d: %v", a.server, code, err)}, ErrUnreachable)
	case err != nil && !errors.Is(err, ErrUnreachable):
		return nil, &Problem{Check: "Discovery",
			Text: fmt.Sprintf("%s is no API server of Kubernetes: %v", a.server, err),
			Cure: "give the address and port of the API server"}
	case err != nil:
		return nil, err
	case m.Data["kubeconfig"] == "":
		return nil, &Problem{Check: "Discovery",
			Text: "this API server is not set up for kubeadm tokens (cluster-info has no kubeconfig)",
			Cure: "--discovery-file FILE, with a kubeconfig of the cluster"}
	}
	return &m, nil
}

// Endpoint checks the argument of `porthole join`: host:port, with 6443 as the default port.
func Endpoint(text string) (string, error) {
	text = strings.TrimSuffix(strings.TrimPrefix(text, "https://"), "/")
	if text == "" || strings.ContainsAny(text, "/ ") {
		return "", fmt.Errorf("%q is not the address of an API server, such as 10.0.0.1:6443", text)
	}
	if host, port, err := net.SplitHostPort(text); err == nil {
		if host == "" || port == "" {
			return "", fmt.Errorf("%q is not the address of an API server, such as 10.0.0.1:6443", text)
		}
		return text, nil
	}
	return net.JoinHostPort(strings.Trim(text, "[]"), "6443"), nil
}
