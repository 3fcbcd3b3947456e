package serve

import (
	"context"
	"crypto/tls"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	authnv1 "k8s.io/api/authentication/v1"
	authzv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/types"
	statsapi "k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"porthole.dev/porthole/kubelet/pod"
	"porthole.dev/porthole/kubelet/volume"
)

// ExecRequest asks for a command in a container, AttachRequest (no command) for its own streams.
type ExecRequest struct {
	ContainerID                string
	Command                    []string
	Stdin, Stdout, Stderr, TTY bool
}

// Streams gives addresses of the runtime's streaming server; the runtime client of the kubelet implements it.
type Streams interface {
	ExecURL(ctx context.Context, r ExecRequest) (string, error)
	AttachURL(ctx context.Context, r ExecRequest) (string, error)
	PortForwardURL(ctx context.Context, sandboxID string, ports []int32) (string, error)
}

// Reviewer asks the API server about tokens and rights; internal/kube implements it.
type Reviewer interface {
	ReviewToken(ctx context.Context, token string, audiences []string) (authnv1.TokenReviewStatus, error)
	ReviewAccess(ctx context.Context, spec authzv1.SubjectAccessReviewSpec) (authzv1.SubjectAccessReviewStatus, error)
}

// Stats gives usage as the runtime reports it.
type Stats interface {
	PodStats(ctx context.Context) ([]statsapi.PodStats, error)
	ImageFs(ctx context.Context) (*statsapi.FsStats, error)
	// Metrics are what the runtime measures under cAdvisor's names; none where it does not.
	Metrics(ctx context.Context) ([]RuntimeMetric, error)
}

// AuthOptions say who is let in.
type AuthOptions struct {
	ClientCAFile string // empty: client certificates are not looked at; read again when it changes
	Tokens       bool   // bearer tokens are reviewed
	Webhook      bool   // rights are reviewed; false lets every authenticated user do everything
	Anonymous    bool   // requests without credentials are system:anonymous instead of refused
	// How long an answer about a token, and about an access that is allowed or denied, is believed; zero means upstream's
	// 2 m, 5 m and 30 s.
	TokenTTL, AllowedTTL, DeniedTTL time.Duration
	Reviewer                        Reviewer // required by Tokens and Webhook
}

// TLSOptions name the serving certificate: Certificate if it is set, else CertFile and KeyFile (read again when they change), else
// kubelet.crt and kubelet.key in CertDir, which are made, self-signed, if they are absent or no longer valid.
type TLSOptions struct {
	Certificate                func(*tls.ClientHelloInfo) (*tls.Certificate, error)
	CertFile, KeyFile, CertDir string
	// NodeAddresses are those in the self-signed certificate.
	NodeAddresses []string
	// MinVersion is the oldest version of TLS that is accepted; zero means 1.2, which is also the least.
	MinVersion uint16
	// CipherSuites are those that are accepted up to TLS 1.2; nil means Go's choice.
	CipherSuites []uint16
}

// Options configure a Server. NodeName and Pods are required; handlers whose source is nil answer 501.
type Options struct {
	Address       string // default 0.0.0.0:10250
	HealthAddress string // default 127.0.0.1:10248; "-" for none
	NodeName      string
	TLS           TLSOptions
	Auth          AuthOptions
	Pods          func() []pod.View
	Streams       Streams
	Exec          func(ctx context.Context, containerID string, command []string, timeout time.Duration) (exit int, out []byte, err error)
	// Checkpoint writes the state of a container into an archive below RootDir.
	Checkpoint func(ctx context.Context, r CheckpointRequest) error
	Stats      Stats
	Machine    Machine // shown by /metrics/cadvisor
	// Volumes measures the volumes of a pod; optional.
	Volumes func(types.UID) []volume.Usage
	RootDir string              // whose filesystem is the node's in statistics
	Config  any                 // shown by /configz
	Flags   map[string]string   // of the command line, by name; shown by /flagz
	Version string              // of Kubernetes, as in v1.36.3; shown by /statusz
	Metrics prometheus.Gatherer // default: prometheus.DefaultGatherer
	// ProbeMetrics are shown by /metrics/probes; optional.
	ProbeMetrics prometheus.Gatherer
	// NoDebugging switches off what acts on containers or shows their output, /logs/ and profiles; NoProfiling the last
	// only. Both answer 405.
	NoDebugging, NoProfiling bool
	NoFlagChanges            bool                    // /debug/flags/v answers 405
	LogsDir                  string                  // shown by /logs/; empty disables it
	LogQueries               bool                    // /logs/ answers queries for logs of services
	Healthy                  func() error            // nil means healthy
	extra                    map[string]http.Handler // more endpoints, for tests
}
