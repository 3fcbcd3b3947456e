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

	"porthole.dev/porthole/internal/platform"
	"porthole.dev/porthole/kubelet/pod"
	"porthole.dev/porthole/kubelet/usage"
	"porthole.dev/porthole/kubelet/volume/measure"
)

// ExecRequest asks for the streams of a command in a container, or of the container itself (AttachURL, without a
// command).
type ExecRequest struct {
	ContainerID                string
	Command                    []string
	Stdin, Stdout, Stderr, TTY bool
}

// Streams returns addresses of the runtime's streaming server, each for one stream; kubelet/runtime implements it.
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

// Stats returns usage as the runtime reports it; kubelet/runtime implements it.
type Stats interface {
	PodStats(ctx context.Context) ([]statsapi.PodStats, error)
	ImageFs(ctx context.Context) (*statsapi.FsStats, error)
	// Metrics returns what the runtime measures under cAdvisor's names; nothing if it measures nothing.
	Metrics(ctx context.Context) ([]RuntimeMetric, error)
}

// Volumes measures what a pod has on disk beside its logs; volume.Measure implements it.
type Volumes interface {
	Usage(ctx context.Context, uid types.UID) []measure.Usage
	FileUsage(uid types.UID) measure.Usage
}

// Groups reads cgroups; kubelet/usage implements it.
type Groups interface {
	One(path string) (usage.Group, bool)
	Trees(ctx context.Context, pods string, others ...string) []usage.Group
}

// CgroupOptions say which cgroups are read for statistics and metrics. If Reader is nil, no cgroup is read: then all
// statistics of containers are those that the container runtime reports.
type CgroupOptions struct {
	Reader Groups
	Pods   func() string // the cgroup of all pods; "" as long as it is not known
	Misc   string        // that of the system's processes; empty: none
	// Runtime reads what the runtime uses, and Cgroup names its cgroup, "" if it shares that with others; optional.
	Runtime func() (usage.Group, bool)
	Cgroup  func() string
}

// AuthOptions say which users may use the server.
type AuthOptions struct {
	ClientCAFile string // read again when it changes; empty ignores client certificates
	Tokens       bool   // the API server reviews bearer tokens; false refuses them
	Webhook      bool   // the API server reviews rights; false allows every authenticated user everything
	Anonymous    bool   // requests without credentials are system:anonymous; false refuses them
	// How long the answer to a review of a token, and of an access that is allowed or denied, is used again. Zero means
	// upstream's 2 m, 5 m and 30 s.
	TokenTTL, AllowedTTL, DeniedTTL time.Duration
	Reviewer                        Reviewer // required if Tokens or Webhook is set
}

// TLSOptions name the serving certificate: Certificate if it is set, else CertFile and KeyFile (read again when they
// change), else kubelet.crt and kubelet.key in CertDir, which are made, self-signed, if they are absent or no longer
// valid.
type TLSOptions struct {
	Certificate                func(*tls.ClientHelloInfo) (*tls.Certificate, error)
	CertFile, KeyFile, CertDir string
	// NodeAddresses are those in the self-signed certificate.
	NodeAddresses []string
	// MinVersion is the oldest version of TLS that is accepted; zero means 1.2, which is also the least.
	MinVersion uint16
	// CipherSuites are those that are accepted up to TLS 1.2; nil means Go's choice.
	CipherSuites []uint16
	// Curves are the key exchanges that are accepted, in Go's order whatever theirs; nil means Go's choice.
	Curves []tls.CurveID
}

// Options configure a Server. NodeName, TLS and Pods are required. An endpoint whose source is nil answers 501.
type Options struct {
	Address       string // default 0.0.0.0:10250
	HealthAddress string // default 127.0.0.1:10248; "-" for none
	// ReadOnlyAddress is where pods, statistics and metrics are shown to everybody over HTTP; empty for none.
	ReadOnlyAddress string
	NodeName        string
	TLS             TLSOptions
	Auth            AuthOptions
	Pods            func() []pod.View
	Streams         Streams
	Exec            func(ctx context.Context, containerID string, command []string, timeout time.Duration) (exit int,
		out []byte, err error)
	// Checkpoint writes the state of a container into an archive below RootDir.
	Checkpoint func(ctx context.Context, r CheckpointRequest) error
	Stats      Stats
	Machine    Machine             // shown by /metrics/cadvisor
	Volumes    Volumes             // optional
	RootDir    string              // the kubelet's folder; its file system is the node's in statistics
	Config     any                 // shown by /configz
	Flags      map[string]string   // of the command line, by name; shown by /flagz
	Version    string              // of Kubernetes, as in v1.36.3; shown by /statusz
	Metrics    prometheus.Gatherer // default: prometheus.DefaultGatherer
	// ProbeMetrics are shown by /metrics/probes; optional.
	ProbeMetrics prometheus.Gatherer
	// NoDebugging switches off the endpoints that act on containers or show their output, /logs/ and profiles.
	// NoProfiling switches off profiles only. What is switched off answers 405.
	NoDebugging, NoProfiling bool
	NoFlagChanges            bool // /debug/flags/v answers 405
	Logs                     LogsOptions
	Healthy                  func() error // nil means healthy
	// Extra are more endpoints, by pattern of http.ServeMux; optional.
	Extra map[string]http.Handler
}

// LogsOptions say what /logs/ shows.
type LogsOptions struct {
	Dir     string // empty disables it
	Queries bool   // queries for the logs of services are answered
}

// RuntimeMetric is one value that the runtime measures itself, under the name that cAdvisor has for it.
type RuntimeMetric struct {
	Kind    *RuntimeMetricKind
	Values  []string // of the kind's labels, in the same order
	Value   float64
	Counter bool      // else it is a gauge
	At      time.Time // zero means now
}

// RuntimeMetricKind describes the metrics of one name.
type RuntimeMetricKind struct {
	Name, Help string
	Labels     []string
}

// Machine is the node itself, as /metrics/cadvisor shows it.
type Machine struct {
	CPUs, MemoryBytes             int64
	MachineID, SystemUUID, BootID string
	KernelVersion, OSImage        string
	// Cores and Sockets are physical ones; 0 if they are not known.
	Cores, Sockets int64
	Cgroups        CgroupOptions
	// Usage reads what the machine uses, for all statistics; default: platform.ReadUsage. What it cannot read is zero.
	Usage func(root string) (platform.Usage, error)
}

// CheckpointRequest asks the runtime to write the state of a running container into an archive.
type CheckpointRequest struct {
	ContainerID string
	Location    string        // file that the runtime creates; its folder exists
	Timeout     time.Duration // as the client asked; zero means that of the runtime client
}
