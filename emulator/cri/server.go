package cri

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	containerd "github.com/containerd/containerd/v2/client"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/klog/v2"

	"porthole.dev/porthole/emulator/cri/guestns"
)

const maxMessage = 16 << 20

// Server is the CRI of one emulated Windows host. Calls that mean the same on both systems go to containerd unchanged.
type Server struct {
	o          Options
	runtime    runtimeapi.RuntimeServiceClient
	images     runtimeapi.ImageServiceClient
	containerd *containerd.Client
}

// Run serves until ctx ends. It waits for containerd as long as it takes, so the order of starting does not matter.
func Run(ctx context.Context, o Options) error {
	o = o.withDefaults()
	if o.Host == "" || o.HostDir == "" || o.Build == 0 || o.Template == "" || o.Wine == "" || o.WineServer == "" || o.CPUs == 0 {
		return errors.New("running the host's CRI: host, folder, build, template, Wine and CPUs must be given")
	}
	logger := klog.FromContext(ctx)
	conn, err := grpc.NewClient("unix://"+o.Containerd, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage), grpc.WaitForReady(true)))
	if err != nil {
		return fmt.Errorf("reaching containerd at %s: %w", o.Containerd, err)
	}
	defer conn.Close()
	client, err := containerd.NewWithConn(conn, containerd.WithDefaultNamespace(namespace))
	if err != nil {
		return fmt.Errorf("reaching containerd at %s: %w", o.Containerd, err)
	}
	s := &Server{o: o, containerd: client, runtime: runtimeapi.NewRuntimeServiceClient(conn), images: runtimeapi.NewImageServiceClient(conn)}
	if err := os.MkdirAll(o.containersDir(), 0o755); err != nil {
		return fmt.Errorf("running the host's CRI: %w", err)
	}
	listener, err := net.Listen("tcp", o.Listen)
	if err != nil {
		return fmt.Errorf("running the host's CRI: %w", err)
	}
	server := grpc.NewServer(grpc.MaxRecvMsgSize(maxMessage), grpc.MaxSendMsgSize(maxMessage))
	runtimeapi.RegisterRuntimeServiceServer(server, service{Server: s})
	runtimeapi.RegisterImageServiceServer(server, imageService{Server: s})
	registerImporter(server, s)
	go s.sweepUntilDone(ctx)
	go s.deleteEndedNamespaces(ctx)
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		<-ctx.Done()
		force := time.AfterFunc(2*time.Second, server.Stop)
		server.GracefulStop()
		force.Stop()
	}()

	logger.Info("CRI of the emulated host is serving", "address", o.Listen, "build", o.Build)
	err = server.Serve(listener)
	if ctx.Err() != nil {
		<-stopped
		return nil
	}
	return err
}

// deleteEndedNamespaces deletes the HCN namespaces of removed pods every two seconds, until ctx ends. containerd on Windows deletes them
// when it removes the pods.
func (s *Server) deleteEndedNamespaces(ctx context.Context) {
	tick := time.NewTicker(2 * time.Second)
	defer tick.Stop()
	for {
		if err := (guestns.Host{Dir: s.o.HostDir, Dial: s.o.DialHNS}).DeleteEnded(ctx); err != nil {
			klog.FromContext(ctx).V(2).Info("Deleting HCN namespaces of removed pods failed; trying again", "cause", err.Error())
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// sweepUntilDone tries the sweep until it could be done once.
func (s *Server) sweepUntilDone(ctx context.Context) {
	for {
		err := s.sweep(ctx)
		if err == nil || ctx.Err() != nil {
			return
		}
		klog.FromContext(ctx).Error(err, "Sweeping folders of removed containers")
		select {
		case <-ctx.Done():
		case <-time.After(5 * time.Second):
		}
	}
}
