package serve

import (
	"context"
	"crypto/tls"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	authnv1 "k8s.io/api/authentication/v1"
	authzv1 "k8s.io/api/authorization/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	statsapi "k8s.io/kubelet/pkg/apis/stats/v1alpha1"
)

// PodView is what the server may know of a pod. It is not changed after it was handed over.
type PodView struct {
	Pod        *v1.Pod
	SandboxID  string // empty while there is none
	Containers map[string]ContainerView
	// Logs are the log files of all instances that the runtime still has, by container id.
	Logs map[string]string
}

// State of a container.
type State int

// The states of a container.
const (
	Waiting State = iota
	Running
	Exited
)

// ContainerView is the newest instance of a container.
type ContainerView struct {
	ID      string // empty while it was never created
	LogPath string
	State   State
}

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

// Options configure a Server. NodeName and Pods are required; handlers whose source is nil answer 501.
type Options struct {
	Address       string // default 0.0.0.0:10250
	HealthAddress string // default 127.0.0.1:10248; "-" for none
	NodeName      string
	NodeAddresses []string // in the self-signed certificate

	// The serving certificate: Certificate if set, else CertFile and KeyFile (read again when they change), else
	// kubelet.crt and kubelet.key in CertDir, self-signed when absent or no longer valid.
	Certificate                func(*tls.ClientHelloInfo) (*tls.Certificate, error)
	CertFile, KeyFile, CertDir string
	// MinTLS is the oldest version of TLS that is spoken, CipherSuites what is spoken before 1.3; zero means 1.2, and Go's choice.
	MinTLS       uint16
	CipherSuites []uint16

	Auth    AuthOptions
	Pods    func() []PodView
	Streams Streams
	Exec    func(ctx context.Context, containerID string, command []string, timeout time.Duration) (exit int, out []byte, err error)
	// Checkpoint writes the state of a container into an archive below RootDir.
	Checkpoint func(ctx context.Context, r CheckpointRequest) error
	Stats      Stats
	Machine    Machine // shown by /metrics/cadvisor
	// Volumes measures the volumes of a pod; optional.
	Volumes func(types.UID) []VolumeUse
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
	NoFlagChanges            bool         // /debug/flags/v answers 405
	LogsDir                  string       // shown by /logs/; empty disables it
	LogQueries               bool         // /logs/ answers queries for logs of services
	Healthy                  func() error // nil means healthy
	Extra                    map[string]http.Handler
}
