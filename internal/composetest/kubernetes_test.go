package composetest

import (
	"errors"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"
)

// manifest is as much of a Kubernetes object as is looked at.
type manifest struct {
	Kind     string
	Metadata struct{ Name string }
	Data     map[string]string
	Secrets  map[string]string `yaml:"stringData"`
	Spec     struct {
		Replicas int
		Selector struct {
			MatchLabels map[string]string `yaml:"matchLabels"`
		}
		Template struct {
			Metadata struct{ Labels map[string]string }
			Spec     pod
		}
	}
}

type pod struct {
	Grace    int `yaml:"terminationGracePeriodSeconds"`
	Security struct {
		NonRoot bool `yaml:"runAsNonRoot"`
	} `yaml:"securityContext"`
	Init       []container `yaml:"initContainers"`
	Containers []container
}

type container struct {
	Args    []string
	EnvFrom []struct {
		ConfigMap struct{ Name string } `yaml:"configMapRef"`
		Secret    struct{ Name string } `yaml:"secretRef"`
	} `yaml:"envFrom"`
	Liveness  probe `yaml:"livenessProbe"`
	Readiness probe `yaml:"readinessProbe"`
	Security  struct {
		Escalation *bool `yaml:"allowPrivilegeEscalation"`
		ReadOnly   bool  `yaml:"readOnlyRootFilesystem"`
	} `yaml:"securityContext"`
}

type probe struct {
	Get struct{ Path string } `yaml:"httpGet"`
}

func manifests(t *testing.T) map[string]manifest {
	t.Helper()
	all := map[string]manifest{}
	for decoder := yaml.NewDecoder(strings.NewReader(read(t, "docs/deploy/kubernetes.yaml"))); ; {
		var one manifest
		err := decoder.Decode(&one)
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		all[one.Kind+"/"+one.Metadata.Name] = one
	}
}

func TestKubernetes(t *testing.T) {
	t.Parallel()
	all := manifests(t)
	want := []string{
		"ConfigMap/paidonce", "Deployment/paidonce-web", "Deployment/paidonce-work", "PodDisruptionBudget/paidonce-web",
		"PodDisruptionBudget/paidonce-work", "Secret/paidonce", "Service/paidonce",
	}
	if got := slices.Sorted(maps.Keys(all)); !slices.Equal(got, want) {
		t.Fatalf("objects %q, want %q", got, want)
	}
	for name, args := range map[string][]string{"web": {"serve", "--no-workers"}, "work": {"work"}} {
		deployment := all["Deployment/paidonce-"+name].Spec
		spec := deployment.Template.Spec
		if !slices.Equal(spec.Containers[0].Args, args) || deployment.Replicas < 2 || spec.Grace == 0 || !spec.Security.NonRoot {
			t.Errorf("%s: %+v", name, deployment)
		}
		for key, value := range all["PodDisruptionBudget/paidonce-"+name].Spec.Selector.MatchLabels {
			if deployment.Template.Metadata.Labels[key] != value || deployment.Selector.MatchLabels[key] != value {
				t.Errorf("%s: the labels of pods, selector and budget differ in %s", name, key)
			}
		}
		for _, one := range append(spec.Init, spec.Containers...) {
			if one.Security.Escalation == nil || *one.Security.Escalation || !one.Security.ReadOnly {
				t.Errorf("%s: %v is not confined", name, one.Args)
			}
			if len(one.EnvFrom) != 2 || one.EnvFrom[0].ConfigMap.Name != "paidonce" || one.EnvFrom[1].Secret.Name != "paidonce" {
				t.Errorf("%s: %v is not configured: %+v", name, one.Args, one.EnvFrom)
			}
		}
	}
	web := all["Deployment/paidonce-web"].Spec.Template.Spec
	if web.Containers[0].Liveness.Get.Path != "/healthz" || web.Containers[0].Readiness.Get.Path != "/readyz" {
		t.Error("web: want /healthz for liveness, /readyz for readiness")
	}
	if len(web.Init) != 1 || !slices.Equal(web.Init[0].Args, []string{"migrate", "up"}) {
		t.Error("web: want an init container that migrates")
	}
	known := settings(t)
	for _, values := range []map[string]string{all["ConfigMap/paidonce"].Data, all["Secret/paidonce"].Secrets} {
		for name := range values {
			if !slices.Contains(known, name) {
				t.Errorf("%s is no setting", name)
			}
		}
	}
	for name, value := range all["Secret/paidonce"].Secrets {
		if value != "" {
			t.Errorf("the example has a value for %s: somebody will use it", name)
		}
	}
}

// testKubernetesEnvironment has the binary read what Kubernetes gives it: with the Secret as
// it stands it refuses to start, and with its values filled in it has nothing to complain of.
func testKubernetesEnvironment(t *testing.T, binary string) {
	all := manifests(t)
	env := maps.Clone(all["ConfigMap/paidonce"].Data)
	for _, args := range [][]string{{"serve", "--no-workers"}, {"work"}} {
		if got := faultsOfConfiguration(t, binary, env, args...); len(got) == 0 {
			t.Errorf("%v starts with an empty Secret", args)
		}
	}
	filled := dotenv()
	filled["SMTP_URL"] = "smtp://mail.example.com:25"
	for name := range all["Secret/paidonce"].Secrets {
		if name != "DATABASE_URL" && filled[name] == "" {
			t.Fatalf("no value for %s", name)
		}
		env[name] = filled[name]
	}
	for _, args := range [][]string{{"serve", "--no-workers"}, {"work"}} {
		if got := faultsOfConfiguration(t, binary, env, args...); len(got) > 0 {
			t.Errorf("%v with the Secret filled in: faults %q", args, got)
		}
	}
}

// The workflow runs what a person runs, with nothing that may change under it.
func TestWorkflow(t *testing.T) {
	t.Parallel()
	var workflow struct {
		Permissions map[string]string
		Jobs        map[string]struct {
			Strategy struct {
				Matrix struct{ Include []struct{ OS, Run string } }
			}
			Steps []struct{ Uses, Run string }
		}
	}
	if err := yaml.Unmarshal([]byte(read(t, ".github/workflows/ci.yml")), &workflow); err != nil {
		t.Fatal(err)
	}
	runs := map[string]string{}
	for _, one := range workflow.Jobs["ci"].Strategy.Matrix.Include {
		system, _, _ := strings.Cut(one.OS, "-")
		runs[system] = one.Run
	}
	if runs["ubuntu"] != ".ci/run" || !strings.Contains(runs["macos"], "go build ./...") {
		t.Errorf("it runs %q", runs)
	}
	for _, step := range workflow.Jobs["ci"].Steps {
		if _, version, _ := strings.Cut(step.Uses, "@"); step.Uses != "" && strings.Count(version, ".") != 2 {
			t.Errorf("%s is not pinned", step.Uses)
		}
	}
	if len(workflow.Permissions) != 1 || workflow.Permissions["contents"] != "read" {
		t.Errorf("permissions %q, want to read contents alone", workflow.Permissions)
	}
}
