package kube

import (
	"errors"
	"io/fs"
	"os"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"agentbox/agentbox"
)

// Where is the beginning of TaskSpec.Where for a cluster. ":" and a context of the kubeconfig follow.
const Where = "k8s"

// Is tells whether a task is for a cluster.
func Is(where string) bool { return where == Where || strings.HasPrefix(where, Where+":") }

// Settings are k8s.yaml of the home.
type Settings struct {
	// Registry is where images, sources and results are, as in registry.example/team/agentbox.
	Registry string `json:"registry"`
	// RegistrySecret is a secret of the namespace, of type kubernetes.io/dockerconfigjson, with which pods
	// read and write there.
	RegistrySecret string `json:"registrySecret,omitempty"`
	Kubeconfig     string `json:"kubeconfig,omitempty"` // "" is $KUBECONFIG, or ~/.kube/config
	Namespace      string `json:"namespace,omitempty"`  // "" is that of the context
	// TTLSecondsAfterFinished is how long a Job stays when it has ended; the default is a day.
	TTLSecondsAfterFinished *int32 `json:"ttlSecondsAfterFinished,omitempty"`
	// Template is a PodTemplateSpec, as Kubernetes has it: what pods of tasks have beside what is ours.
	// Its container "task" is the task's.
	Template corev1.PodTemplateSpec `json:"template,omitzero"`
}

// maxSettings bounds the file, in bytes.
const maxSettings = 256 << 10

// Load reads the settings at path. The error is Missing without a file, and Invalid for one that is wrong.
func Load(path string) (Settings, error) {
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return Settings{}, agentbox.Errorf(agentbox.Missing, "tasks on Kubernetes need %s, and there is none", path).WithHint("docs/kubernetes.md has its form")
	}
	var s Settings
	if err == nil {
		s, err = parse(b)
	}
	if err != nil {
		return s, agentbox.Errorf(agentbox.Invalid, "%s: %w", path, err).WithHint("docs/kubernetes.md has its form")
	}
	return s, nil
}

// parse reads settings. Unknown keys are errors, those of Kubernetes' own types included.
func parse(b []byte) (s Settings, err error) {
	if len(b) > maxSettings {
		return s, errors.New("it is too large")
	}
	b, err = yaml.YAMLToJSONStrict(b)
	if err == nil && string(b) != "null" {
		// As Kubernetes reads it: yaml.UnmarshalStrict takes keys in any capitals.
		var unknown []error
		unknown, err = json.UnmarshalStrict(b, &s)
		err = errors.Join(append(unknown, err)...)
	}
	if err != nil {
		return s, errors.New(agentbox.Printable(err.Error()))
	}
	if s.Registry == "" {
		return s, errors.New("registry: say where images and results go, as in registry.example/team/agentbox")
	}
	if _, err := name.NewRepository(s.Registry); err != nil {
		return s, errors.New("registry: " + err.Error())
	}
	return s, nil
}

// config finds the cluster of a context, "" for the current one. The kubeconfig is the user's own, and may
// name programs that get credentials.
func (s Settings) config(context string) clientcmd.ClientConfig {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = s.Kubeconfig
	return clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{CurrentContext: context})
}

// Resolve returns TaskSpec.Where with the context said, so that a later change of the current one does
// not move the task. The error is Invalid for a context that there is not.
func (s Settings) Resolve(where string) (string, error) {
	_, context, _ := strings.Cut(where, ":")
	raw, err := s.config(context).RawConfig()
	if err != nil {
		return "", agentbox.Errorf(agentbox.Invalid, "the kubeconfig cannot be read: %w", err)
	}
	if context == "" {
		context = raw.CurrentContext
	}
	if raw.Contexts[context] == nil {
		return "", agentbox.Errorf(agentbox.Invalid, "the kubeconfig has no context %q", context).WithHint("kubectl config get-contexts lists them")
	}
	return Where + ":" + context, nil
}
