package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/pflag"
	"go.etcd.io/etcd/server/v3/embed"
	"k8s.io/apimachinery/pkg/util/wait"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/kubernetes"
	restclient "k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	cliflag "k8s.io/component-base/cli/flag"
	"k8s.io/component-base/featuregate"
	logsapi "k8s.io/component-base/logs/api/v1"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	apiserveroptions "k8s.io/kubernetes/cmd/kube-apiserver/app/options"
	controllers "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	controllersoptions "k8s.io/kubernetes/cmd/kube-controller-manager/app/options"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	scheduleroptions "k8s.io/kubernetes/cmd/kube-scheduler/app/options"
)

// config is what `kube controlplane --config` reads: where etcd keeps its data, and upstream's own flags for each part.
type config struct {
	// Etcd: a folder and the two URLs, for example http://127.0.0.1:2379 and http://127.0.0.1:2380.
	Etcd struct {
		DataDir   string `json:"dataDir"`
		ClientURL string `json:"clientURL"`
		PeerURL   string `json:"peerURL"`
	} `json:"etcd"`
	// Flags as the upstream commands take them, for example "--secure-port=6443". Without flags the controller manager
	// or the scheduler does not run.
	APIServer         []string `json:"apiServer"`
	ControllerManager []string `json:"controllerManager"`
	Scheduler         []string `json:"scheduler"`
}

// runControlPlane starts the four parts and returns when a signal asks it to stop or one of them ends by itself.
func runControlPlane(args []string) error {
	flags := pflag.NewFlagSet("controlplane", pflag.ContinueOnError)
	path := flags.String("config", "", "JSON file that holds etcd's settings and the flags of each part")
	if err := flags.Parse(args); err != nil {
		return err
	}
	cfg, err := readConfig(*path)
	if err != nil {
		return err
	}
	// All parts share one process, so the second one to apply logging finds it applied: that is no error.
	logsapi.ReapplyHandling = logsapi.ReapplyHandlingIgnoreUnchanged
	restclient.SetDefaultWarningHandler(restclient.NoWarnings{})

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := startEtcd(cfg); err != nil {
		return fmt.Errorf("starting etcd in %s: %w", cfg.Etcd.DataDir, err)
	}

	server, err := prepareAPIServer(ctx, cfg.APIServer)
	if err != nil {
		return fmt.Errorf("kube-apiserver: %w", err)
	}
	ended := make(chan error, 4)
	run := func(name string, f func() error) {
		go func() { ended <- fmt.Errorf("%s ended: %w", name, orEOF(f())) }()
	}
	run("kube-apiserver", func() error { return server(ctx) })
	// The other two end when they are refused, and they are refused until the API server has made its default roles.
	go func() {
		if len(cfg.ControllerManager) == 0 {
			return
		}
		if err := waitReady(ctx, cfg.ControllerManager); err != nil {
			ended <- fmt.Errorf("waiting for kube-apiserver: %w", err)
			return
		}
		if len(cfg.ControllerManager) > 0 {
			run("kube-controller-manager", func() error { return runControllers(ctx, cfg.ControllerManager) })
		}
		if len(cfg.Scheduler) > 0 {
			run("kube-scheduler", func() error { return runScheduler(ctx, cfg.Scheduler) })
		}
	}()
	select {
	case err := <-ended:
		if ctx.Err() != nil {
			return nil
		}
		return err
	case <-ctx.Done():
		// Nothing more is closed: what was answered is in etcd's log, and etcd would wait for the watches of the API
		// server, in this same process, to end.
		return nil
	}
}

// waitReady waits until the API server reports that it is ready. It asks with the controller manager's credentials.
func waitReady(ctx context.Context, args []string) error {
	var path string
	for _, arg := range args {
		if value, ok := strings.CutPrefix(arg, "--kubeconfig="); ok {
			path = value
		}
	}
	cfg, err := clientcmd.BuildConfigFromFlags("", path)
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return err
	}
	return wait.PollUntilContextCancel(ctx, 50*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		return client.RESTClient().Get().AbsPath("/readyz").Do(ctx).Error() == nil, nil
	})
}

func orEOF(err error) error {
	if err == nil {
		return errors.New("without an error")
	}
	return err
}

func readConfig(path string) (*config, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading --config: %w", err)
	}
	var cfg config
	if err := json.Unmarshal(data, &cfg); err != nil {
		return nil, fmt.Errorf("reading --config %s: %w", path, err)
	}
	return &cfg, nil
}

// startEtcd returns when etcd answers. It ends with the process. fsync is off: a local cluster is made again after a
// power loss.
func startEtcd(cfg *config) error {
	client, err := url.Parse(cfg.Etcd.ClientURL)
	if err != nil {
		return err
	}

	peer, err := url.Parse(cfg.Etcd.PeerURL)
	if err != nil {
		return err
	}

	c := embed.NewConfig()
	c.Name = "porthole"
	c.Dir = cfg.Etcd.DataDir
	c.UnsafeNoFsync = true
	c.LogLevel = "warn"
	// zero, the default here, warns of each request
	c.WarningUnaryRequestDuration = embed.DefaultWarningUnaryRequestDuration
	c.ListenClientUrls = []url.URL{*client}
	c.AdvertiseClientUrls = []url.URL{*client}
	c.ListenPeerUrls = []url.URL{*peer}
	c.AdvertisePeerUrls = []url.URL{*peer}
	c.InitialCluster = c.Name + "=" + cfg.Etcd.PeerURL
	c.TickMs, c.ElectionMs = 50, 250 // one member elects itself after one election time-out
	etcd, err := embed.StartEtcd(c)
	if err != nil {
		return err
	}

	select {
	case <-etcd.Server.ReadyNotify():
		return nil
	case err := <-etcd.Err():
		return err
	}
}

// parse gives upstream's flag sets the arguments that its own command line would give them.
func parse(name string, sets cliflag.NamedFlagSets, args []string) error {
	fs := pflag.NewFlagSet(name, pflag.ContinueOnError)
	for _, set := range sets.FlagSets {
		fs.AddFlagSet(set)
	}
	return fs.Parse(args)
}

func prepareAPIServer(ctx context.Context, args []string) (func(context.Context) error, error) {
	s := apiserveroptions.NewServerRunOptions()
	if err := parse("kube-apiserver", s.Flags(), args); err != nil {
		return nil, err
	}
	if err := s.GenericServerRunOptions.ComponentGlobalsRegistry.Set(); err != nil {
		return nil, err
	}

	if err := logsapi.ValidateAndApply(s.Logs, featureGate()); err != nil {
		return nil, err
	}
	completed, err := s.Complete(ctx)
	if err != nil {
		return nil, err
	}

	if errs := completed.Validate(); len(errs) != 0 {
		return nil, errors.Join(errs...)
	}
	return func(ctx context.Context) error { return apiserver.Run(ctx, completed) }, nil
}

func featureGate() featuregate.FeatureGate { return utilfeature.DefaultFeatureGate }

func runControllers(ctx context.Context, args []string) error {
	s, err := controllersoptions.NewKubeControllerManagerOptions()
	if err != nil {
		return err
	}
	known := controllers.KnownControllers()
	off := controllers.ControllersDisabledByDefault()
	aliases := controllers.ControllerAliases()
	sets := s.Flags(known, off, aliases)
	s.ParsedFlags = &sets
	if err := parse("kube-controller-manager", sets, args); err != nil {
		return err
	}
	c, err := s.Config(ctx, known, off, aliases)
	if err != nil {
		return err
	}
	return controllers.Run(ctx, c.Complete())
}

func runScheduler(ctx context.Context, args []string) error {
	opts := scheduleroptions.NewOptions()
	if err := parse("kube-scheduler", *opts.Flags, args); err != nil {
		return err
	}
	cc, sched, err := scheduler.Setup(ctx, opts)
	if err != nil {
		return err
	}
	return scheduler.Run(ctx, cc, sched)
}
