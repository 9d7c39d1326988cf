// Package deploy_test checks what an operator starts from: the image, the
// compose file and the Kubernetes base.
package deploy_test

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"
)

func TestServicesAreComplete(t *testing.T) {
	t.Parallel()
	objects, rendered := manifests(t)
	deployments := ofKind(objects, "Deployment")
	if got, want := slices.Sorted(maps.Keys(deployments)), []string{"enqueuer", "worker"}; !slices.Equal(got, want) {
		t.Fatalf("deployments %v, want %v", got, want)
	}
	if n := deployments["worker"].Spec.Replicas; n != 3 {
		t.Errorf("%d workers, want 3", n)
	}
	for name, d := range deployments {
		if rendered && d.Metadata.Namespace != "tundish" {
			t.Errorf("%s: namespace %q", name, d.Metadata.Namespace)
		}
		if got := matchLabels(t, d); len(got) == 0 || !maps.Equal(got, d.Spec.Template.Metadata.Labels) {
			t.Errorf("%s: selector %v does not match the pod's labels %v", name, got, d.Spec.Template.Metadata.Labels)
		}
		checkPod(t, name, d.Spec.Template.Spec)
	}
}

// checkPod holds a pod to the restricted profile and to what a roll-out needs.
func checkPod(t *testing.T, name string, p pod) {
	t.Helper()
	if !p.Security.NonRoot || p.Security.User == 0 || p.Security.Seccomp.Type != "RuntimeDefault" {
		t.Errorf("%s: not restricted: %+v", name, p.Security)
	}
	if p.Automount == nil || *p.Automount {
		t.Errorf("%s: mounts a service account token that it does not need", name)
	}
	if len(p.Containers) != 1 {
		t.Fatalf("%s: %d containers, want 1", name, len(p.Containers))
	}
	c := p.Containers[0]
	checkContainer(t, c)
	grace := time.Duration(c.Lifecycle.PreStop.Sleep.Seconds) * time.Second
	if given, ok := flagValue(c.Args, "stop-grace"); ok {
		d, err := time.ParseDuration(given)
		if err != nil {
			t.Errorf("%s: --stop-grace: %v", name, err)
		}
		grace += d
	}
	if killed := time.Duration(p.GracePeriod) * time.Second; killed < grace+10*time.Second {
		t.Errorf("%s: is killed after %s, %s of which are its own grace: no time to settle", name, killed, grace)
	}
}

func checkContainer(t *testing.T, c container) {
	t.Helper()
	ports := make([]string, 0, len(c.Ports))
	for _, p := range c.Ports {
		ports = append(ports, p.Name)
	}
	for want, got := range map[string]probe{"/healthz": c.Liveness, "/readyz": c.Readiness} {
		if got.HTTP.Path != want || got.HTTP.Port != "admin" || !slices.Contains(ports, got.HTTP.Port) {
			t.Errorf("%s: probe %+v, want %s on the admin port", c.Name, got.HTTP, want)
		}
	}
	if c.Resources.Requests["cpu"] == "" || c.Resources.Requests["memory"] == "" || c.Resources.Limits["memory"] == "" {
		t.Errorf("%s: resources %+v, want requests and a memory limit", c.Name, c.Resources)
	}
	if c.Security.Escalation == nil || *c.Security.Escalation || !c.Security.ReadOnly || !slices.Equal(c.Security.Caps.Drop, []string{"ALL"}) {
		t.Errorf("%s: security context %+v", c.Name, c.Security)
	}
	if len(c.Command) != 1 {
		t.Fatalf("%s: command %v", c.Name, c.Command)
	}
	variables := make([]string, 0, len(c.Env))
	for _, e := range c.Env {
		variables = append(variables, e.Name)
	}
	checkCommand(t, command{where: c.Name, program: c.Command[0], args: c.Args, variables: variables, destinations: "kubernetes/destinations.yaml"})
}

func flagValue(args []string, flag string) (string, bool) {
	for _, arg := range args {
		if value, ok := strings.CutPrefix(arg, "--"+flag+"="); ok {
			return value, true
		}
	}
	return "", false
}

func matchLabels(t *testing.T, o object) map[string]string {
	t.Helper()
	var s selector
	if err := o.Spec.Selector.Decode(&s); err != nil {
		t.Fatalf("%s %s: selector: %v", o.Kind, o.Metadata.Name, err)
	}
	return s.MatchLabels
}

func TestEachDeploymentHasItsGuards(t *testing.T) {
	t.Parallel()
	objects, _ := manifests(t)
	budgets, policies := ofKind(objects, "PodDisruptionBudget"), ofKind(objects, "NetworkPolicy")
	for name, d := range ofKind(objects, "Deployment") {
		labels := d.Spec.Template.Metadata.Labels
		budget, ok := budgets[name]
		if !ok || budget.Spec.MaxUnavailable != 1 || !maps.Equal(matchLabels(t, budget), labels) {
			t.Errorf("%s: disruption budget %+v, want maxUnavailable 1 for its pods", name, budget.Spec)
		}
		policy, ok := policies[name]
		if !ok || !maps.Equal(policy.Spec.PodSelector.MatchLabels, labels) || !slices.Equal(policy.Spec.PolicyTypes, []string{"Ingress", "Egress"}) {
			t.Errorf("%s: network policy %+v, want both directions for its pods", name, policy.Spec)
		}
	}
}

func TestServiceReachesTheEnqueuer(t *testing.T) {
	t.Parallel()
	objects, _ := manifests(t)
	service, ok := ofKind(objects, "Service")["enqueuer"]
	if !ok {
		t.Fatal("no service enqueuer")
	}
	var selected map[string]string
	if err := service.Spec.Selector.Decode(&selected); err != nil {
		t.Fatal(err)
	}
	pod := ofKind(objects, "Deployment")["enqueuer"].Spec.Template
	if !maps.Equal(selected, pod.Metadata.Labels) {
		t.Errorf("the service selects %v, the pods have %v", selected, pod.Metadata.Labels)
	}
	for _, p := range service.Spec.Ports {
		if !slices.ContainsFunc(pod.Spec.Containers[0].Ports, func(c struct{ Name string }) bool { return c.Name == p.TargetPort }) {
			t.Errorf("the service aims at port %q, which no container has", p.TargetPort)
		}
	}
}

// The base lists every manifest beside it, and brings the destinations.
func TestBaseIsWhole(t *testing.T) {
	t.Parallel()
	listed := append(resources(t), "kustomization.yaml", "destinations.yaml")
	entries, err := os.ReadDir("kubernetes")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if filepath.Ext(e.Name()) == ".yaml" && !slices.Contains(listed, e.Name()) {
			t.Errorf("kubernetes/%s is in no list of the base", e.Name())
		}
	}
	objects, rendered := manifests(t)
	if config := ofKind(objects, "ConfigMap")["tundish-destinations"]; rendered && config.Data["destinations.yaml"] == "" {
		t.Error("no destinations in the config map tundish-destinations")
	}
}

func TestCompose(t *testing.T) {
	t.Parallel()
	var file struct {
		Services map[string]struct {
			Entrypoint, Command []string
			Ports               []string
			Deploy              struct{ Replicas int }
			StopGrace           string `yaml:"stop_grace_period"`
		}
	}
	if err := yaml.Unmarshal(read(t, "compose.yaml"), &file); err != nil {
		t.Fatal(err)
	}
	if got, want := slices.Sorted(maps.Keys(file.Services)), []string{"bank", "enqueuer", "redis", "worker"}; !slices.Equal(got, want) {
		t.Fatalf("services %v, want %v", got, want)
	}
	if n := file.Services["worker"].Deploy.Replicas; n != 3 {
		t.Errorf("%d workers, want 3", n)
	}
	redis := strings.Join(file.Services["redis"].Command, " ")
	for _, want := range []string{"--appendonly yes", "--maxmemory-policy noeviction"} {
		if !strings.Contains(redis, want) {
			t.Errorf("redis runs without %s", want)
		}
	}
	for name, s := range file.Services {
		if name != "redis" && len(s.Entrypoint) == 1 {
			checkCommand(t, command{where: name, program: s.Entrypoint[0], args: s.Command, destinations: "compose.destinations.yaml"})
		} else if name != "redis" {
			t.Errorf("%s: entrypoint %v", name, s.Entrypoint)
		}
		for _, p := range s.Ports {
			if !strings.HasPrefix(p, "127.0.0.1:") {
				t.Errorf("%s: port %s is open to the network, without keys", name, p)
			}
		}
	}
	checkComposeGrace(t, file.Services["worker"].Command, file.Services["worker"].StopGrace)
}

func checkComposeGrace(t *testing.T, command []string, killed string) {
	t.Helper()
	own, _ := flagValue(command, "stop-grace")
	grace, err := time.ParseDuration(own)
	if err != nil {
		t.Fatalf("--stop-grace: %v", err)
	}
	if until, err := time.ParseDuration(killed); err != nil || until < grace+10*time.Second {
		t.Errorf("the worker is killed after %q (%v), its own grace is %s", killed, err, grace)
	}
}

func TestDockerfile(t *testing.T) {
	t.Parallel()
	file := string(read(t, "Dockerfile"))
	for what, pattern := range map[string]string{
		"a last stage without a shell":        `(?m)^FROM gcr\.io/distroless/static-debian12:nonroot$`,
		"a user by number":                    `(?m)^USER 65532:65532$`,
		"an entry point that gets signals":    `(?m)^ENTRYPOINT \["/usr/local/bin/tundish"\]$`,
		"a static build":                      `CGO_ENABLED=0 go build`,
		"the enqueuer":                        `\./cmd/enqueuer\b`,
		"the worker":                          `\./cmd/worker\b`,
		"the command line":                    `\./cmd/tundish\b`,
		"modules in a layer before the code":  `(?s)COPY go\.mod go\.sum.*go mod download.*COPY \. \.`,
		"the Go version that go.mod asks for": `(?m)^FROM golang:` + regexp.QuoteMeta(goVersion(t)) + ` AS build$`,
	} {
		if !regexp.MustCompile(pattern).MatchString(file) {
			t.Errorf("the image lacks %s (%s)", what, pattern)
		}
	}
}

// goVersion is the major and minor version in go.mod.
func goVersion(t *testing.T) string {
	t.Helper()
	found := regexp.MustCompile(`(?m)^go (\d+\.\d+)`).FindSubmatch(read(t, "../go.mod"))
	if found == nil {
		t.Fatal("go.mod names no Go version")
	}
	return string(found[1])
}
