package deploy_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"go.yaml.in/yaml/v3"
)

// Only the fields that the tests look at.

type object struct {
	Kind     string
	Metadata struct{ Name, Namespace string }
	Spec     struct {
		Replicas       int
		MaxUnavailable any `yaml:"maxUnavailable"`
		// A Deployment's and a budget's selector; a Service's stands beside.
		Selector    yaml.Node
		PodSelector selector `yaml:"podSelector"`
		PolicyTypes []string `yaml:"policyTypes"`
		Ports       []struct {
			TargetPort string `yaml:"targetPort"`
		}
		Template struct {
			Metadata struct{ Labels map[string]string }
			Spec     pod
		}
	}
	Data map[string]string
}

type selector struct {
	MatchLabels map[string]string `yaml:"matchLabels"`
}

type pod struct {
	Automount   *bool `yaml:"automountServiceAccountToken"`
	GracePeriod int   `yaml:"terminationGracePeriodSeconds"`
	Security    struct {
		NonRoot bool                  `yaml:"runAsNonRoot"`
		User    int                   `yaml:"runAsUser"`
		Seccomp struct{ Type string } `yaml:"seccompProfile"`
	} `yaml:"securityContext"`
	Containers []container
}

type container struct {
	Name      string
	Command   []string
	Args      []string
	Env       []struct{ Name string }
	Ports     []struct{ Name string }
	Liveness  probe `yaml:"livenessProbe"`
	Readiness probe `yaml:"readinessProbe"`
	Lifecycle struct {
		PreStop struct{ Sleep struct{ Seconds int } } `yaml:"preStop"`
	}
	Resources struct{ Requests, Limits map[string]string }
	Security  struct {
		Escalation *bool                   `yaml:"allowPrivilegeEscalation"`
		ReadOnly   bool                    `yaml:"readOnlyRootFilesystem"`
		Caps       struct{ Drop []string } `yaml:"capabilities"`
	} `yaml:"securityContext"`
}

type probe struct {
	HTTP struct{ Path, Port string } `yaml:"httpGet"`
}

// manifests renders the base with kubectl, or reads its files where there is
// none. The flag says which.
func manifests(t *testing.T) (objects []object, rendered bool) {
	t.Helper()
	kubectl, err := exec.LookPath("kubectl")
	if err != nil {
		for _, name := range resources(t) {
			objects = append(objects, decode(t, read(t, filepath.Join("kubernetes", name)))...)
		}
		return objects, false
	}
	var stderr bytes.Buffer
	cmd := exec.Command(kubectl, "kustomize", "kubernetes")
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("kubectl kustomize: %v\n%s", err, stderr.String())
	}
	return decode(t, out), true
}

// resources lists the files of the base.
func resources(t *testing.T) []string {
	t.Helper()
	var base struct{ Resources []string }
	if err := yaml.Unmarshal(read(t, "kubernetes/kustomization.yaml"), &base); err != nil {
		t.Fatal(err)
	}
	return base.Resources
}

func decode(t *testing.T, content []byte) []object {
	t.Helper()
	var all []object
	decoder := yaml.NewDecoder(bytes.NewReader(content))
	for {
		var o object
		err := decoder.Decode(&o)
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, o)
	}
}

func read(t *testing.T, name string) []byte {
	t.Helper()
	content, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

func ofKind(objects []object, kind string) map[string]object {
	found := map[string]object{}
	for _, o := range objects {
		if o.Kind == kind {
			found[o.Metadata.Name] = o
		}
	}
	return found
}
