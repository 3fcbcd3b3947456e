package cri

import (
	"context"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// service and imageService are the two services of the Server as gRPC sees them. What is not written out here or in the files named
// after an operation answers "unimplemented", as containerd itself does for what it does not know.
type (
	service struct {
		runtimeapi.UnimplementedRuntimeServiceServer
		*Server
	}
	imageService struct {
		runtimeapi.UnimplementedImageServiceServer
		*Server
	}
)

func (s service) Version(ctx context.Context, r *runtimeapi.VersionRequest) (*runtimeapi.VersionResponse, error) {
	return s.runtime.Version(ctx, r)
}

func (s service) ReopenContainerLog(ctx context.Context, r *runtimeapi.ReopenContainerLogRequest) (*runtimeapi.ReopenContainerLogResponse, error) {
	return s.runtime.ReopenContainerLog(ctx, r)
}

func (s service) Attach(ctx context.Context, r *runtimeapi.AttachRequest) (*runtimeapi.AttachResponse, error) {
	return s.runtime.Attach(ctx, r)
}

func (s service) PortForward(ctx context.Context, r *runtimeapi.PortForwardRequest) (*runtimeapi.PortForwardResponse, error) {
	return s.runtime.PortForward(ctx, r)
}

func (s service) UpdateRuntimeConfig(ctx context.Context, r *runtimeapi.UpdateRuntimeConfigRequest) (*runtimeapi.UpdateRuntimeConfigResponse, error) {
	return s.runtime.UpdateRuntimeConfig(ctx, r)
}

func (s service) RuntimeConfig(ctx context.Context, r *runtimeapi.RuntimeConfigRequest) (*runtimeapi.RuntimeConfigResponse, error) {
	return s.runtime.RuntimeConfig(ctx, r)
}

func (s service) ListMetricDescriptors(ctx context.Context, r *runtimeapi.ListMetricDescriptorsRequest) (*runtimeapi.ListMetricDescriptorsResponse, error) {
	return s.runtime.ListMetricDescriptors(ctx, r)
}

func (s service) ListPodSandboxMetrics(ctx context.Context, r *runtimeapi.ListPodSandboxMetricsRequest) (*runtimeapi.ListPodSandboxMetricsResponse, error) {
	return s.runtime.ListPodSandboxMetrics(ctx, r)
}

func (s imageService) ListImages(ctx context.Context, r *runtimeapi.ListImagesRequest) (*runtimeapi.ListImagesResponse, error) {
	return s.images.ListImages(ctx, r)
}

func (s imageService) ImageStatus(ctx context.Context, r *runtimeapi.ImageStatusRequest) (*runtimeapi.ImageStatusResponse, error) {
	return s.images.ImageStatus(ctx, r)
}

func (s imageService) RemoveImage(ctx context.Context, r *runtimeapi.RemoveImageRequest) (*runtimeapi.RemoveImageResponse, error) {
	return s.images.RemoveImage(ctx, r)
}

func (s imageService) ImageFsInfo(ctx context.Context, r *runtimeapi.ImageFsInfoRequest) (*runtimeapi.ImageFsInfoResponse, error) {
	return s.images.ImageFsInfo(ctx, r)
}
