package credential

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"

	"sigs.k8s.io/yaml"
)

// kubeconfig is the part of a kubeconfig file that matters here.
type kubeconfig struct {
	Clusters []struct {
		Name    string `json:"name"`
		Cluster struct {
			Server string `json:"server"`
			CA     string `json:"certificate-authority-data"`
			CAFile string `json:"certificate-authority"`
		} `json:"cluster"`
	} `json:"clusters"`
	Users []struct {
		Name string `json:"name"`
		User struct {
			Token    string `json:"token"`
			Cert     string `json:"client-certificate-data"`
			Key      string `json:"client-key-data"`
			CertFile string `json:"client-certificate"`
			KeyFile  string `json:"client-key"`
		} `json:"user"`
	} `json:"users"`
	Contexts []struct {
		Name    string `json:"name"`
		Context struct {
			Cluster string `json:"cluster"`
			User    string `json:"user"`
		} `json:"context"`
	} `json:"contexts"`
	Current string `json:"current-context"`
}

// info is a cluster as a kubeconfig has it; ca is PEM, list the certificates that are in it.
type info struct {
	server string
	ca     []byte
	list   []*x509.Certificate
}

// parseClusterInfo reads the kubeconfig of cluster-info: one cluster, and nothing else.
func parseClusterInfo(text string) (*info, error) {
	var k kubeconfig
	if err := yaml.Unmarshal([]byte(text), &k); err != nil {
		return nil, &Problem{Check: "Discovery", Text: fmt.Sprintf("cluster-info holds no kubeconfig: %v", err)}
	}
	if len(k.Clusters) != 1 {
		return nil, &Problem{Check: "Discovery",
			Text: fmt.Sprintf("the kubeconfig of cluster-info has %d clusters, and must have one", len(k.Clusters))}
	}
	// It is read before anybody knows who says it. A file that it names could be another machine's, or one without an
	// end.
	if file := k.Clusters[0].Cluster.CAFile; file != "" {
		return nil, &Problem{Check: "Discovery",
			Text: fmt.Sprintf("the kubeconfig of cluster-info names the file %q in place of certificate-authority-data",
				file)}
	}
	return k.cluster(0)
}

// cluster returns the cluster at a place of the kubeconfig's list. Data of the authority counts
// before a file of it.
func (k *kubeconfig) cluster(i int) (*info, error) {
	c := k.Clusters[i].Cluster
	if !strings.HasPrefix(c.Server, "https://") {
		return nil, &Problem{Check: "Discovery",
			Text: fmt.Sprintf("the kubeconfig's server is %q, not https://…", c.Server)}
	}
	ca, err := base64.StdEncoding.DecodeString(c.CA)
	if err == nil && len(ca) == 0 && c.CAFile != "" {
		ca, err = os.ReadFile(c.CAFile)
	}
	if err != nil {
		return nil, &Problem{Check: "Discovery",
			Text: fmt.Sprintf("reading the kubeconfig's certificate authority: %v", err)}
	}
	list, err := ParseCA(ca)
	if err != nil {
		return nil, &Problem{Check: "Discovery", Text: "the kubeconfig has no certificate-authority-data"}
	}
	return &info{server: strings.TrimSuffix(c.Server, "/"), ca: ca, list: list}, nil
}

// FromFile is what a discovery file says: the cluster, and perhaps credentials.
type FromFile struct {
	Cluster Cluster
	Token   string           // a bearer token of any kind
	Pair    *tls.Certificate // nil without
}

// HasCredentials reports whether the file says who asks.
func (f *FromFile) HasCredentials() bool { return f.Token != "" || f.Pair != nil }

// API returns a client with the credentials of the file.
func (f *FromFile) API() (*API, error) {
	a, err := f.Cluster.With(Token{}, f.Pair)
	if err == nil && f.Pair == nil {
		a.token = f.Token
	}
	return a, err
}

// ReadFile reads a discovery file: a kubeconfig, from a path or an https URL that this machine's own roots verify.
func ReadFile(ctx context.Context, path string) (*FromFile, error) {
	text, err := readPath(ctx, path)
	if err != nil {
		return nil, &Problem{Check: "Discovery", Text: fmt.Sprintf("reading --discovery-file: %v", err)}
	}
	var k kubeconfig
	if err := yaml.Unmarshal(text, &k); err != nil || len(k.Clusters) == 0 {
		return nil, &Problem{Check: "Discovery", Text: path + " is no kubeconfig with a cluster"}
	}
	return k.choose()
}

// ParseKubeconfig reads a kubeconfig's current context.
func ParseKubeconfig(text []byte) (*FromFile, error) {
	var k kubeconfig
	if err := yaml.Unmarshal(text, &k); err != nil || len(k.Clusters) == 0 {
		return nil, errors.New("it is no kubeconfig with a cluster")
	}
	return k.choose()
}

// choose returns the current context, or else the first cluster with the first user.
func (k *kubeconfig) choose() (*FromFile, error) {
	cluster, user := 0, 0
	for _, c := range k.Contexts {
		if c.Name != k.Current {
			continue
		}
		for i := range k.Clusters {
			if k.Clusters[i].Name == c.Context.Cluster {
				cluster = i
			}
		}
		for i := range k.Users {
			if k.Users[i].Name == c.Context.User {
				user = i
			}
		}
	}

	found, err := k.cluster(cluster)
	if err != nil {
		return nil, err
	}
	f := &FromFile{Cluster: Cluster{Server: found.server, CA: found.ca, CAHash: Pin(found.list[0])}}
	if len(k.Users) == 0 {
		return f, nil
	}
	u := k.Users[user].User
	f.Token = u.Token
	cert, _ := base64.StdEncoding.DecodeString(u.Cert) // no PEM below if it is wrong
	key, _ := base64.StdEncoding.DecodeString(u.Key)
	if u.CertFile != "" {
		if cert, err = os.ReadFile(u.CertFile); err != nil {
			return f, fmt.Errorf("reading the kubeconfig's certificate: %w", err)
		}
	}
	if u.KeyFile != "" {
		if key, err = os.ReadFile(u.KeyFile); err != nil {
			return f, fmt.Errorf("reading the kubeconfig's key: %w", err)
		}
	}
	if len(cert) == 0 {
		return f, nil
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return f, fmt.Errorf("reading the kubeconfig's certificate: %w", err)
	}
	f.Pair = &pair
	return f, nil
}

// onlyTLS follows redirects to https alone.
var onlyTLS = &http.Client{CheckRedirect: func(r *http.Request, via []*http.Request) error {
	if r.URL.Scheme != "https" || len(via) >= 5 {
		return fmt.Errorf("it redirects to %s, and only https is safe for a file that says whom to trust",
			r.URL.Redacted())
	}
	return nil
}}

// readPath reads a file, or what an address of https answers, of which at most maxAnswer bytes.
func readPath(ctx context.Context, path string) ([]byte, error) {
	if strings.HasPrefix(path, "http://") {
		return nil, fmt.Errorf("%s: only https is safe for a file that says whom to trust", path)
	}
	if !strings.HasPrefix(path, "https://") {
		return os.ReadFile(path)
	}
	ctx, cancel := context.WithTimeout(ctx, 3*requestTime)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, path, nil)
	if err != nil {
		return nil, err
	}
	answer, err := onlyTLS.Do(r)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s answers %s", path, answer.Status)
	}
	return io.ReadAll(io.LimitReader(answer.Body, maxAnswer))
}
