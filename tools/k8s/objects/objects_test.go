// Package objects judges the objects of package kube, as its golden files have them, by Kubernetes' own
// defaults and validation, as its API server would. It has no code of its own.
package objects

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	_ "k8s.io/kubernetes/pkg/apis/batch/install"
	_ "k8s.io/kubernetes/pkg/apis/core/install"
	_ "k8s.io/kubernetes/pkg/apis/networking/install"
	"k8s.io/kubernetes/pkg/registry/batch/job"
	"k8s.io/kubernetes/pkg/registry/networking/networkpolicy"
)

// strategy is what an API server does with an object that somebody creates.
type strategy interface {
	PrepareForCreate(ctx context.Context, obj runtime.Object)
	Validate(ctx context.Context, obj runtime.Object) field.ErrorList
	WarningsOnCreate(ctx context.Context, obj runtime.Object) []string
}

// judge creates the object of a golden file, up to the store.
func judge(t *testing.T, name string, change *strings.Replacer) (field.ErrorList, []string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "..", "agentbox", "kube", "testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	obj, err := runtime.Decode(legacyscheme.Codecs.UniversalDecoder(), []byte(change.Replace(string(text)))) // with defaults
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	meta, err := meta.Accessor(obj)
	if err != nil {
		t.Fatal(err)
	}
	meta.SetNamespace("default")
	rest.FillObjectMetaSystemFields(meta)
	by := strategy(job.Strategy)
	if name == "networkpolicy.yaml" {
		by = networkpolicy.Strategy
	}
	by.PrepareForCreate(t.Context(), obj)
	return by.Validate(t.Context(), obj), by.WarningsOnCreate(t.Context(), obj)
}

func TestObjectsAreValid(t *testing.T) {
	for _, name := range []string{"plain-job.yaml", "templated-job.yaml", "networkpolicy.yaml"} {
		if bad, warnings := judge(t, name, strings.NewReplacer()); len(bad) > 0 || len(warnings) > 0 {
			t.Errorf("%s: %v, %q", name, bad, warnings)
		}
	}
}

// What a Job must not have is refused, so what judges above does judge.
func TestFaultsAreFound(t *testing.T) {
	for _, wrong := range []*strings.Replacer{
		strings.NewReplacer("restartPolicy: Never", "restartPolicy: Always"),
		strings.NewReplacer("backoffLimit: ", "backoffLimit: -1"),
	} {
		if bad, _ := judge(t, "plain-job.yaml", wrong); len(bad) == 0 {
			t.Errorf("%v: nothing is wrong", wrong)
		}
	}
}
