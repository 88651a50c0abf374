package kube

import (
	"cmp"
	"encoding/json"
	"strconv"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"agentbox/agentbox"
	"agentbox/agentbox/fleet"
	"agentbox/agentbox/kube/worker"
	"agentbox/agentbox/resources"
)

// Labels and annotations of what is ours.
const (
	managedBy      = "app.kubernetes.io/managed-by"
	ours           = "agentbox"
	taskLabel      = "agentbox/task"
	attemptLabel   = "agentbox/attempt"
	jobAnnotation  = "agentbox/job" // of the attempt, which no other one has
	commandNote    = "agentbox/command"
	projectNote    = "agentbox/project"
	sourceNote     = "agentbox/source"
	container      = "task"
	workspaceName  = "workspace"
	credentials    = "registry"
	credentialsDir = "/.agentbox/registry"
)

const (
	// gracePeriod is what a worker has to end its command and to deliver the work.
	gracePeriod = 60 * time.Second
	// slack is what a pod may take beside its task's own time, which the worker holds: until then the
	// source comes, setup runs, and the work goes.
	slack      = 30 * time.Minute
	defaultTTL = 24 * 60 * 60
)

// asked is what objects are made for.
type asked struct {
	Task      agentbox.Task
	Attempt   agentbox.Attempt
	Need      resources.Share // 0: as the template or the cluster has it
	Image     string          // reference by digest
	Work      worker.Work
	HostUsers bool // the cluster has no user namespaces
}

func jobName(t agentbox.Task, a agentbox.Attempt) string {
	return ours + "-" + t.ID.String() + "-" + strings.TrimPrefix(a.Job.String(), "j-")
}

func (s Settings) job(a asked) (*batchv1.Job, error) {
	work, err := json.Marshal(a.Work)
	if err != nil {
		return nil, err
	}
	labels := map[string]string{managedBy: ours, taskLabel: a.Task.ID.String(), attemptLabel: strconv.Itoa(a.Attempt.Number)}
	notes := map[string]string{
		jobAnnotation: a.Attempt.Job.String(), commandNote: agentbox.Clip(strings.Join(a.Work.Command, " ")), projectNote: a.Task.Project, sourceNote: a.Work.Source,
	}
	meta := metav1.ObjectMeta{Name: jobName(a.Task, a.Attempt), Labels: labels, Annotations: notes}
	template := *s.Template.DeepCopy()
	template.Labels, template.Annotations = merged(template.Labels, labels), merged(template.Annotations, notes)
	s.pod(&template.Spec, a, string(work))
	return &batchv1.Job{
		TypeMeta:   metav1.TypeMeta{APIVersion: "batch/v1", Kind: "Job"},
		ObjectMeta: meta,
		Spec: batchv1.JobSpec{
			BackoffLimit:            new(int32(fleet.MaxLeases - 1)),
			TTLSecondsAfterFinished: new(*cmp.Or(s.TTLSecondsAfterFinished, new(int32(defaultTTL)))),
			// A pod that was moved away does not count, and one whose command ended otherwise than well is
			// not tried again: its result is there.
			PodFailurePolicy: &batchv1.PodFailurePolicy{Rules: []batchv1.PodFailurePolicyRule{
				{Action: batchv1.PodFailurePolicyActionFailJob, OnExitCodes: &batchv1.PodFailurePolicyOnExitCodesRequirement{
					ContainerName: new(container), Operator: batchv1.PodFailurePolicyOnExitCodesOpIn, Values: []int32{worker.ExitDelivered}}},
				{Action: batchv1.PodFailurePolicyActionIgnore, OnPodConditions: []batchv1.PodFailurePolicyOnPodConditionsPattern{
					{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue}}},
			}},
			Template: template,
		},
	}, nil
}

func merged(theirs, own map[string]string) map[string]string {
	out := map[string]string{}
	for _, m := range []map[string]string{theirs, own} {
		for k, v := range m {
			out[k] = v
		}
	}
	return out
}

func (s Settings) pod(p *corev1.PodSpec, a asked, work string) {
	p.RestartPolicy = corev1.RestartPolicyNever
	p.TerminationGracePeriodSeconds = new(int64(gracePeriod / time.Second))
	// The pod's own deadline, not the Job's: that one deletes the pod, and with it what kubectl would show.
	if a.Work.Wall > 0 {
		p.ActiveDeadlineSeconds = new(int64((a.Work.Wall + slack + time.Second - 1) / time.Second))
	}
	if p.AutomountServiceAccountToken == nil {
		p.AutomountServiceAccountToken = new(false)
	}
	if p.HostUsers == nil && !a.HostUsers {
		p.HostUsers = new(false)
	}
	if p.EnableServiceLinks == nil {
		p.EnableServiceLinks = new(false)
	}
	for _, key := range []string{corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable} {
		p.Tolerations = append(p.Tolerations, corev1.Toleration{
			Key: key, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: new(int64(fleet.LeaseTime / time.Second)),
		})
	}
	at := 0
	for at < len(p.Containers) && p.Containers[at].Name != container {
		at++
	}
	if at == len(p.Containers) {
		p.Containers = append(p.Containers, corev1.Container{Name: container})
	}
	c := &p.Containers[at]
	c.Image, c.Command, c.Args, c.WorkingDir = a.Image, []string{worker.Program, worker.Verb}, nil, "/"
	c.Env = append(c.Env, corev1.EnvVar{Name: worker.WorkVariable, Value: work})
	c.TerminationMessagePolicy = corev1.TerminationMessageFallbackToLogsOnError
	share(c, a.Need)
	s.volumes(p, c)
}

// share asks for what the task needs. Memory that is promised is there; processor time may be lent.
func share(c *corev1.Container, need resources.Share) {
	set := func(list *corev1.ResourceList, name corev1.ResourceName, n int64, f resource.Format) {
		if _, said := (*list)[name]; said || n == 0 {
			return
		}
		if *list == nil {
			*list = corev1.ResourceList{}
		}
		(*list)[name] = *resource.NewQuantity(n, f)
	}
	set(&c.Resources.Requests, corev1.ResourceCPU, int64(need.CPUs), resource.DecimalSI)
	set(&c.Resources.Limits, corev1.ResourceCPU, int64(need.CPUs), resource.DecimalSI)
	set(&c.Resources.Requests, corev1.ResourceMemory, need.Memory, resource.BinarySI)
	set(&c.Resources.Limits, corev1.ResourceMemory, need.Memory, resource.BinarySI)
}

// volumes gives the container a workspace, unless the template has a volume there, and the credentials.
func (s Settings) volumes(p *corev1.PodSpec, c *corev1.Container) {
	has := false
	for _, m := range c.VolumeMounts {
		has = has || m.MountPath == worker.Workspace
	}
	add := func(v corev1.Volume, path string, readOnly bool) {
		p.Volumes = append(p.Volumes, v)
		c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: v.Name, MountPath: path, ReadOnly: readOnly})
	}
	if !has {
		add(corev1.Volume{Name: workspaceName, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}, worker.Workspace, false)
	}
	add(corev1.Volume{Name: "state", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}, worker.State, false)
	if s.RegistrySecret == "" {
		return
	}
	p.ImagePullSecrets = append(p.ImagePullSecrets, corev1.LocalObjectReference{Name: s.RegistrySecret})
	add(corev1.Volume{Name: credentials, VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{
		SecretName: s.RegistrySecret, DefaultMode: new(int32(0o400)),
		Items: []corev1.KeyToPath{{Key: corev1.DockerConfigJsonKey, Path: "config.json"}},
	}}}, credentialsDir, true)
	c.Env = append(c.Env, corev1.EnvVar{Name: "DOCKER_CONFIG", Value: credentialsDir})
}

// policyName is the NetworkPolicy of all tasks in a namespace.
const policyName = "agentbox-tasks"

// networkPolicy lets pods of tasks reach names, the world and the registry, and nobody reach them: neither
// other pods nor the cluster's network. Who wants another one changes it; it is made only where there
// is none.
func networkPolicy(registry []string) *networkingv1.NetworkPolicy {
	port := intstr.FromInt32(53)
	dns := networkingv1.NetworkPolicyEgressRule{Ports: []networkingv1.NetworkPolicyPort{{Protocol: new(corev1.ProtocolUDP), Port: &port}, {Protocol: new(corev1.ProtocolTCP), Port: &port}}}
	block := func(cidr string, except ...string) networkingv1.NetworkPolicyPeer {
		return networkingv1.NetworkPolicyPeer{IPBlock: &networkingv1.IPBlock{CIDR: cidr, Except: except}}
	}
	to := []networkingv1.NetworkPolicyPeer{
		block("0.0.0.0/0", "10.0.0.0/8", "100.64.0.0/10", "169.254.0.0/16", "172.16.0.0/12", "192.168.0.0/16"),
		block("::/0", "fc00::/7", "fe80::/10"),
	}
	for _, cidr := range registry {
		to = append(to, block(cidr))
	}
	return &networkingv1.NetworkPolicy{
		TypeMeta:   metav1.TypeMeta{APIVersion: "networking.k8s.io/v1", Kind: "NetworkPolicy"},
		ObjectMeta: metav1.ObjectMeta{Name: policyName, Labels: map[string]string{managedBy: ours}},
		Spec: networkingv1.NetworkPolicySpec{
			PodSelector: metav1.LabelSelector{MatchLabels: map[string]string{managedBy: ours}, MatchExpressions: []metav1.LabelSelectorRequirement{{Key: taskLabel, Operator: metav1.LabelSelectorOpExists}}},
			PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress, networkingv1.PolicyTypeEgress},
			Egress:      []networkingv1.NetworkPolicyEgressRule{dns, {To: to}},
		},
	}
}
