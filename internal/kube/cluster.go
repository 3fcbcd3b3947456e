package kube

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// Cluster is the API as commands need it that run for a user and end.
type Cluster struct {
	client kubernetes.Interface
	config *rest.Config
}

// NewCluster returns a client for an administrator's kubeconfig. It sends no request yet.
func NewCluster(kubeconfig string) (*Cluster, error) {
	client, config, err := Load(kubeconfig, "porthole", 50, 100)
	if err != nil {
		return nil, err
	}
	return &Cluster{client: client, config: config}, nil
}

// Ready returns nil if the API server reports that it is ready.
func (c *Cluster) Ready(ctx context.Context) error {
	return c.client.Discovery().RESTClient().Get().AbsPath("/readyz").Do(ctx).Error()
}

// Serves returns nil if the API server answers for a version of a group, itself or by the server that an APIService
// names.
func (c *Cluster) Serves(ctx context.Context, group, version string) error {
	if err := c.client.Discovery().RESTClient().Get().AbsPath("/apis", group, version).Do(ctx).Error(); err != nil {
		return fmt.Errorf("asking for %s/%s: %w", group, version, err)
	}
	return nil
}

// Nodes returns all nodes.
func (c *Cluster) Nodes(ctx context.Context) ([]v1.Node, error) {
	list, err := c.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("listing nodes: %w", err)
	}
	return list.Items, nil
}

// Pods lists the pods of a namespace ("" for all) that the label selector matches ("" for all).
func (c *Cluster) Pods(ctx context.Context, namespace, selector string) ([]v1.Pod, error) {
	list, err := c.client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		return nil, fmt.Errorf("listing pods of %s: %w", namespace, err)
	}
	return list.Items, nil
}

// Services lists all services of a namespace ("" for all).
func (c *Cluster) Services(ctx context.Context, namespace string) ([]v1.Service, error) {
	list, err := c.client.CoreV1().Services(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("listing services: %w", err)
	}
	return list.Items, nil
}

// Deployment returns a deployment.
func (c *Cluster) Deployment(ctx context.Context, namespace, name string) (*appsv1.Deployment, error) {
	d, err := c.client.AppsV1().Deployments(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("reading deployment %s/%s: %w", namespace, name, err)
	}
	return d, nil
}

// DeleteNamespace starts the removal of a namespace and does not wait for its end.
func (c *Cluster) DeleteNamespace(ctx context.Context, name string) error {
	if err := c.client.CoreV1().Namespaces().Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
		return fmt.Errorf("deleting namespace %s: %w", name, err)
	}
	return nil
}
