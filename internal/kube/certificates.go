package kube

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"slices"
	"time"

	certsv1 "k8s.io/api/certificates/v1"
	v1 "k8s.io/api/core/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/transport"
	certutil "k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/certificate"
	"k8s.io/client-go/util/connrotation"
	"k8s.io/klog/v2"
)

// Credentials says how a kubelet authenticates to the API server.
type Credentials struct {
	// Node is the node's name; the certificates are for system:node:<Node>.
	Node string
	// Kubeconfig is the file with the server's address and the credentials. Required.
	Kubeconfig string
	// Bootstrap is a kubeconfig whose credentials may only request a certificate. It is used if Kubeconfig does not
	// exist or its certificate has expired. May be empty.
	Bootstrap string
	// CertDir is where certificates are kept: on Linux kubelet-client-<time>.pem and kubelet-client-current.pem, a
	// link to the newest; on Windows the newest is the file kubelet-client-current.pem itself.
	CertDir string
	// Rotate requests a new certificate after 70 to 90 % of the old one's lifetime.
	Rotate    bool
	UserAgent string
	// QPS and Burst are as in Load.
	QPS   float32
	Burst int
	// Lost is called once, after certificateGrace without a valid certificate although the server answers. Required.
	Lost func(error)

	// oneFile keeps the certificate as on Windows, on any system. Only tests set it.
	oneFile bool
	// check is how often the current certificate is compared with the one in use; zero means certificateCheck. Only
	// tests set it.
	check time.Duration
}

// Times of upstream's kubelet (cmd/kubelet/app/server.go and pkg/kubelet/certificate/transport.go of 1.36.3).
const (
	certificateGrace = 5 * time.Minute
	certificateCheck = 10 * time.Second
	certificateFirst = time.Second // until the first certificate
)

// Connect returns the configuration for the kubelet's clients. It does not wait for a certificate: the API server
// refuses requests until there is one. Rotation goes on until ctx ends.
func (c Credentials) Connect(ctx context.Context) (*rest.Config, error) {
	if !c.Rotate && (c.Bootstrap == "" || usable(c.Kubeconfig)) {
		_, cfg, err := Load(c.Kubeconfig, c.UserAgent, c.QPS, c.Burst)
		return cfg, err
	}
	asker, user, err := c.load()
	if err != nil {
		return nil, err
	}
	m, err := c.manager(asker, user)
	if err != nil {
		return nil, err
	}

	cfg := rest.AnonymousClientConfig(user)
	cfg.UserAgent = c.UserAgent
	cfg.QPS = c.QPS
	cfg.Burst = c.Burst
	dialer := connrotation.NewDialer((&net.Dialer{Timeout: 30 * time.Second, KeepAlive: 30 * time.Second}).DialContext)
	if err := useManager(cfg, m, dialer); err != nil {
		return nil, err
	}
	m.Start()

	go func() {
		defer m.Stop()
		c.follow(ctx, m, dialer)
	}()
	return cfg, nil
}

// load returns the configuration for requesting certificates, and the one for everything else.
func (c Credentials) load() (asker, user *rest.Config, err error) {
	if c.Bootstrap == "" || usable(c.Kubeconfig) {
		user, err = clientcmd.BuildConfigFromFlags("", c.Kubeconfig)
		if err != nil {
			return nil, nil, fmt.Errorf("loading kubeconfig %s: %w", c.Kubeconfig, err)
		}
		return user, rest.CopyConfig(user), nil
	}
	asker, err = clientcmd.BuildConfigFromFlags("", c.Bootstrap)
	if err != nil {
		return nil, nil, fmt.Errorf("loading bootstrap kubeconfig %s: %w", c.Bootstrap, err)
	}
	store, err := newStore(clientPair, c.CertDir, [2]string{}, c.oneFile)
	if err != nil {
		return nil, nil, err
	}
	user = rest.AnonymousClientConfig(asker)
	user.CertFile = store.CurrentPath()
	user.KeyFile = store.CurrentPath()
	if err := writeKubeconfig(c.Kubeconfig, user); err != nil {
		return nil, nil, err
	}
	return asker, user, nil
}

const clientPair = "kubelet-client"

// manager makes what requests and renews the client certificate. The first request is sent as asker, which holds the
// bootstrap token; later ones as user, which has the certificate that is replaced.
func (c Credentials) manager(asker, user *rest.Config) (certificate.Manager, error) {
	store, err := newStore(clientPair, c.CertDir, [2]string{user.CertFile, user.KeyFile}, c.oneFile)
	if err != nil {
		return nil, err
	}
	m, err := certificate.NewManager(&certificate.Config{
		ClientsetFn: func(current *tls.Certificate) (kubernetes.Interface, error) {
			if current == nil {
				return kubernetes.NewForConfig(asker)
			}
			return kubernetes.NewForConfig(user)
		},
		Template:   &x509.CertificateRequest{Subject: nodeSubject(c.Node)},
		SignerName: certsv1.KubeAPIServerClientKubeletSignerName,
		GetUsages:  certificate.DefaultKubeletClientGetUsages,
		// a certificate inside the kubeconfig is replaced at once, as upstream does
		BootstrapCertificatePEM: asker.CertData,
		BootstrapKeyPEM:         asker.KeyData,
		CertificateStore:        store,
	})
	if err != nil {
		return nil, fmt.Errorf("starting the rotation of the client certificate: %w", err)
	}
	return m, nil
}

func nodeSubject(node string) pkix.Name {
	return pkix.Name{CommonName: "system:node:" + node, Organization: []string{"system:nodes"}}
}

// useManager makes clients of cfg present the manager's current certificate, over connections that dialer can close.
func useManager(cfg *rest.Config, m certificate.Manager, dialer *connrotation.Dialer) error {
	security, err := rest.TLSConfigFor(cfg)
	if err != nil {
		return fmt.Errorf("reading the API server's certificate authority: %w", err)
	}
	if security == nil {
		security = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	security.Certificates = nil
	security.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		if pair := m.Current(); pair != nil {
			return pair, nil
		}
		return &tls.Certificate{}, nil
	}
	cfg.Transport = utilnet.SetTransportDefaults(&http.Transport{Proxy: http.ProxyFromEnvironment,
		TLSHandshakeTimeout: 10 * time.Second,
		TLSClientConfig:     security, MaxIdleConnsPerHost: 25, DialContext: dialer.DialContext})
	cfg.TLSClientConfig = rest.TLSClientConfig{}
	return nil
}

// follow closes all connections when the certificate has been replaced, so that new ones use it. It calls Lost if
// there is no valid certificate for too long.
func (c Credentials) follow(ctx context.Context, m certificate.Manager, dialer *connrotation.Dialer) {
	log := klog.FromContext(ctx)
	current, seen := m.Current(), time.Now()
	for {
		wait := cmp.Or(c.check, certificateCheck)
		if current == nil {
			wait = certificateFirst
		}

		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}

		now := m.Current()
		if now == nil {
			if time.Since(seen) > certificateGrace && m.ServerHealthy() {
				c.Lost(fmt.Errorf("no valid client certificate for %v, and the API server answers", certificateGrace))
				return
			}
			continue
		}

		seen = time.Now()
		if now != current {
			current = now
			log.Info("Client certificate rotated, closing the connections that use the old one", "node", c.Node)
			dialer.CloseAll()
			if !c.Rotate { // the first certificate is all that is wanted
				return
			}
		}
	}
}

// usable reports whether a kubeconfig exists and its client certificate is still valid.
func usable(path string) bool {
	if _, err := os.Stat(path); err != nil {
		return false
	}
	cfg, err := clientcmd.BuildConfigFromFlags("", path)
	if err != nil {
		return false
	}
	tc, err := cfg.TransportConfig()
	if err != nil {
		return false
	}
	if _, err := transport.TLSConfigFor(tc); err != nil { // it reads the files
		return false
	}
	certs, err := certutil.ParseCertsPEM(tc.TLS.CertData)
	return err == nil && !slices.ContainsFunc(certs,
		func(c *x509.Certificate) bool { return time.Now().After(c.NotAfter) })
}

// writeKubeconfig writes a kubeconfig whose credentials are the files of the certificate. It names the files and does
// not contain them, since they are replaced when the certificate is renewed.
func writeKubeconfig(path string, cfg *rest.Config) error {
	cluster := &clientcmdapi.Cluster{Server: cfg.Host, InsecureSkipTLSVerify: cfg.Insecure,
		CertificateAuthority: cfg.CAFile}
	if cfg.CAFile == "" {
		cluster.CertificateAuthorityData = cfg.CAData
	}
	doc := clientcmdapi.Config{
		Clusters: map[string]*clientcmdapi.Cluster{"default-cluster": cluster},
		AuthInfos: map[string]*clientcmdapi.AuthInfo{"default-auth": {ClientCertificate: cfg.CertFile,
			ClientKey: cfg.KeyFile}},
		Contexts: map[string]*clientcmdapi.Context{"default-context": {Cluster: "default-cluster",
			AuthInfo: "default-auth", Namespace: "default"}},
		CurrentContext: "default-context",
	}
	if err := clientcmd.WriteToFile(doc, path); err != nil {
		return fmt.Errorf("writing kubeconfig %s: %w", path, err)
	}
	return nil
}

// ServingCertificate requests the certificate of the kubelet's server for the node's addresses. It requests another
// one when they change, and after 70 to 90 % of its lifetime, until ctx ends. The certificates are kept in dir. The
// returned function fails until there is a certificate: an administrator has to approve the request.
func (k *Kubelet) ServingCertificate(ctx context.Context, dir string,
	addresses func() []v1.NodeAddress) (get func(*tls.ClientHelloInfo) (*tls.Certificate, error), err error) {
	store, err := newStore("kubelet-server", dir, [2]string{}, false)
	if err != nil {
		return nil, err
	}
	m, err := certificate.NewManager(&certificate.Config{
		ClientsetFn:      func(*tls.Certificate) (kubernetes.Interface, error) { return k.client, nil },
		GetTemplate:      func() *x509.CertificateRequest { return servingTemplate(k.node, addresses()) },
		SignerName:       certsv1.KubeletServingSignerName,
		GetUsages:        certificate.DefaultKubeletServingGetUsages,
		CertificateStore: store,
	})
	if err != nil {
		return nil, fmt.Errorf("starting the rotation of the serving certificate: %w", err)
	}

	m.Start()
	go func() {
		<-ctx.Done()
		m.Stop()
	}()
	return func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
		if pair := m.Current(); pair != nil {
			return pair, nil
		}
		return nil, errors.New("no serving certificate available for the kubelet")
	}, nil
}

// servingTemplate returns what to request, or nil if the node has no IP address.
func servingTemplate(node string, addresses []v1.NodeAddress) *x509.CertificateRequest {
	out := &x509.CertificateRequest{Subject: nodeSubject(node)}
	for _, a := range addresses {
		ip := net.ParseIP(a.Address)
		named := a.Type == v1.NodeHostName || a.Type == v1.NodeInternalDNS || a.Type == v1.NodeExternalDNS
		switch {
		case a.Address == "":
		case ip != nil && !slices.ContainsFunc(out.IPAddresses, ip.Equal):
			out.IPAddresses = append(out.IPAddresses, ip)
		case ip == nil && named && !slices.Contains(out.DNSNames, a.Address):
			out.DNSNames = append(out.DNSNames, a.Address)
		}
	}
	if len(out.IPAddresses) == 0 {
		return nil
	}
	slices.Sort(out.DNSNames)
	slices.SortFunc(out.IPAddresses, func(a, b net.IP) int { return slices.Compare(a.To16(), b.To16()) })
	return out
}
