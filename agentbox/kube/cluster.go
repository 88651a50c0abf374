package kube

import (
	"context"
	"errors"
	"io"
	"net"
	"net/url"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	nodev1 "k8s.io/api/node/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"

	"agentbox/agentbox"
)

// cluster asks one API server.
type cluster struct {
	namespace string
	clients   map[schema.GroupVersion]rest.Interface
}

// open connects to the cluster of a task's Where. Nothing is asked yet.
func (s Settings) open(where string) (cluster, error) {
	_, context, _ := strings.Cut(where, ":")
	config := s.config(context)
	c := cluster{namespace: s.Namespace, clients: map[schema.GroupVersion]rest.Interface{}}
	at, err := config.ClientConfig()
	if err == nil && c.namespace == "" {
		c.namespace, _, err = config.Namespace()
	}
	if err != nil {
		return c, agentbox.Errorf(agentbox.Invalid, "the kubeconfig cannot be used: %w", err)
	}
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{batchv1.AddToScheme, corev1.AddToScheme, networkingv1.AddToScheme, nodev1.AddToScheme} {
		err = errors.Join(err, add(scheme))
	}
	at.UserAgent, at.NegotiatedSerializer = "agentbox", serializer.NewCodecFactory(scheme).WithoutConversion()
	for _, gv := range []schema.GroupVersion{batchv1.SchemeGroupVersion, corev1.SchemeGroupVersion, networkingv1.SchemeGroupVersion, nodev1.SchemeGroupVersion} {
		of := *at
		of.GroupVersion, of.APIPath = &gv, "/apis"
		if gv.Group == "" {
			of.APIPath = "/api"
		}
		client, made := rest.RESTClientFor(&of)
		err = errors.Join(err, made)
		c.clients[gv] = client
	}
	return c, err
}

func (c cluster) jobs() rest.Interface { return c.clients[batchv1.SchemeGroupVersion] }
func (c cluster) core() rest.Interface { return c.clients[corev1.SchemeGroupVersion] }

// apiError says what the server refuses, or that it cannot be reached.
func apiError(what string, err error) error {
	var status apierrors.APIStatus
	var wire *url.Error
	var op *net.OpError
	switch {
	case err == nil:
		return nil
	case apierrors.IsNotFound(err):
		return agentbox.Classify(agentbox.NotFound, "kubernetes: "+what+": %w", err)
	case apierrors.IsForbidden(err), apierrors.IsUnauthorized(err):
		return agentbox.Errorf(agentbox.Conflict, "kubernetes: %s: %w", what, err).WithHint("docs/kubernetes.md lists what a user needs")
	case apierrors.IsInvalid(err), apierrors.IsBadRequest(err):
		return agentbox.Errorf(agentbox.Invalid, "kubernetes: %s: %w", what, err).WithHint("see template: in k8s.yaml")
	case apierrors.IsAlreadyExists(err):
		return agentbox.Errorf(agentbox.Conflict, "kubernetes: %s: %w", what, err)
	case errors.As(err, &wire), errors.As(err, &op), errors.As(err, &status):
		return agentbox.Errorf(agentbox.Unavailable, "kubernetes: %s: %w", what, err)
	}
	return agentbox.Errorf(agentbox.Unavailable, "kubernetes: %s: %w", what, err)
}

func (c cluster) job(ctx context.Context, name string) (*batchv1.Job, error) {
	var j batchv1.Job
	return &j, apiError("job "+name, c.jobs().Get().Namespace(c.namespace).Resource("jobs").Name(name).Do(ctx).Into(&j))
}

func (c cluster) create(ctx context.Context, j *batchv1.Job) error {
	return apiError("create job "+j.Name, c.jobs().Post().Namespace(c.namespace).Resource("jobs").Body(j).Do(ctx).Error())
}

// remove removes a Job and its pods, which get their grace. Without a policy Kubernetes would leave them.
func (c cluster) remove(ctx context.Context, name string) error {
	policy := metav1.DeletePropagationBackground
	err := apiError("delete job "+name, c.jobs().Delete().Namespace(c.namespace).Resource("jobs").Name(name).Body(&metav1.DeleteOptions{PropagationPolicy: &policy}).Do(ctx).Error())
	if agentbox.CodeOf(err) == agentbox.NotFound {
		return nil
	}
	return err
}

func (c cluster) pods(ctx context.Context, job string) ([]corev1.Pod, error) {
	var list corev1.PodList
	err := c.core().Get().Namespace(c.namespace).Resource("pods").Param("labelSelector", batchv1.JobNameLabel+"="+job).Do(ctx).Into(&list)
	return list.Items, apiError("pods of job "+job, err)
}

// forget removes a pod whose node does not answer, without waiting for it.
func (c cluster) forget(ctx context.Context, pod string) error {
	return apiError("delete pod "+pod, c.core().Delete().Namespace(c.namespace).Resource("pods").Name(pod).Body(&metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))}).Do(ctx).Error())
}

// logs follows what a pod writes, each line with its time before it.
func (c cluster) logs(ctx context.Context, pod string) (io.ReadCloser, error) {
	r, err := c.core().Get().Namespace(c.namespace).Resource("pods").Name(pod).SubResource("log").
		Param("container", container).Param("follow", "true").Param("timestamps", "true").Stream(ctx)
	return r, apiError("log of pod "+pod, err)
}

// protect makes the NetworkPolicy of the namespace, if there is none.
func (c cluster) protect(ctx context.Context, p *networkingv1.NetworkPolicy) error {
	err := c.clients[networkingv1.SchemeGroupVersion].Post().Namespace(c.namespace).Resource("networkpolicies").Body(p).Do(ctx).Error()
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return apiError("create networkpolicy "+p.Name, err)
}

// userNamespaces tells whether all nodes that may run a pod of a RuntimeClass have user namespaces. The
// error is that of a user who may not ask.
func (c cluster) userNamespaces(ctx context.Context, class *string) (bool, error) {
	handler := ""
	if class != nil {
		var rc nodev1.RuntimeClass
		if err := c.clients[nodev1.SchemeGroupVersion].Get().Resource("runtimeclasses").Name(*class).Do(ctx).Into(&rc); err != nil {
			return false, apiError("runtimeclass "+*class, err)
		}
		handler = rc.Handler
	}
	var nodes corev1.NodeList
	if err := c.core().Get().Resource("nodes").Do(ctx).Into(&nodes); err != nil {
		return false, apiError("nodes", err)
	}
	for _, n := range nodes.Items {
		has := false
		for _, h := range n.Status.RuntimeHandlers {
			has = has || h.Name == handler && h.Features != nil && h.Features.UserNamespaces != nil && *h.Features.UserNamespaces
		}
		if !has {
			return false, nil
		}
	}
	return len(nodes.Items) > 0, nil
}
