package command

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
)

// kubernetes lists the fields of the Kubernetes API (v1.30: apps/v1, batch/v1, v1) that manifests here may use, by the field that they are in. A field of a map of
// the user's own names, such as labels, stands for all.
var kubernetes = map[string][]string{
	"":                     {"apiVersion", "kind", "metadata", "spec"},
	"metadata":             {"name", "labels"},
	"selector":             {"matchLabels", "app"},
	"labels":               {"app"},
	"matchLabels":          {"app"},
	"template":             {"metadata", "spec"},
	"jobTemplate":          {"spec"},
	"volumeClaimTemplates": {"metadata", "spec"},
	"securityContext":      {"runAsNonRoot", "runAsUser", "fsGroup", "seccompProfile", "allowPrivilegeEscalation", "readOnlyRootFilesystem", "capabilities"},
	"seccompProfile":       {"type"},
	"capabilities":         {"drop"},
	"containers":           {"name", "image", "args", "ports", "startupProbe", "livenessProbe", "readinessProbe", "securityContext", "volumeMounts"},
	"startupProbe":         {"httpGet", "failureThreshold"},
	"livenessProbe":        {"httpGet", "periodSeconds"},
	"readinessProbe":       {"httpGet"},
	"httpGet":              {"path", "port"},
	"volumeMounts":         {"name", "mountPath"},
	"volumes":              {"name", "secret", "configMap", "persistentVolumeClaim"},
	"secret":               {"secretName", "defaultMode", "optional"},
	"configMap":            {"name"},
	"resources":            {"requests"},
	"requests":             {"storage"},
	"ports":                {"containerPort", "name", "port", "protocol"},
	// A spec is of the pod, the workload, the claim or the service.
	"spec": {"serviceName", "replicas", "selector", "template", "volumeClaimTemplates", "schedule", "concurrencyPolicy", "jobTemplate", "backoffLimit", "type", "ports",
		"accessModes", "resources", "securityContext", "automountServiceAccountToken", "terminationGracePeriodSeconds", "restartPolicy", "containers", "volumes"},
	"persistentVolumeClaim": {"claimName"},
}

// Manifests have no mistyped field; their containers call fednode as it is, run without rights on files that they cannot change, have as long to stop as a round takes, and get
// keys as secrets. kubectl, where there is one, puts them together.
func TestManifests(t *testing.T) {
	t.Parallel()
	const dir = deploy + "/kubernetes"
	files, err := filepath.Glob(dir + "/*.yaml")
	if err != nil || len(files) != 4 {
		t.Fatalf("manifests %q, %v; want 4", files, err)
	}
	var kustomization struct{ Resources []string }
	for _, file := range files {
		text, failed := os.ReadFile(file)
		if failed != nil {
			t.Fatal(failed)
		}
		if filepath.Base(file) == "kustomization.yaml" {
			if err = yaml.Unmarshal(text, &kustomization); err != nil {
				t.Fatal(err)
			}
			continue
		}
		for _, part := range bytes.Split(text, []byte("\n---\n")) {
			var doc map[string]any
			if err = yaml.Unmarshal(part, &doc); err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			m := &manifest{t, file, 0}
			m.check("", doc)
			workload := slices.Contains([]any{"StatefulSet", "CronJob"}, doc["kind"])
			if workload != (m.containers == 1) {
				t.Errorf("%s: %d containers of a %v", file, m.containers, doc["kind"])
			}
		}
	}
	if len(kustomization.Resources) != len(files)-1 {
		t.Errorf("%v are put together, of %v", kustomization.Resources, files)
	}
	if _, err = exec.LookPath("kubectl"); err != nil {
		t.Skip("no kubectl")
	}
	if out, err := exec.Command("kubectl", "kustomize", dir).CombinedOutput(); err != nil || strings.Count(string(out), "kind: ") != 5 {
		t.Errorf("%v\n%s", err, out)
	}
}

type manifest struct {
	t          *testing.T
	file       string
	containers int
}

// check looks through the value of a field.
func (m *manifest) check(field string, value any) {
	switch v := value.(type) {
	case []any:
		for _, x := range v {
			m.check(field, x)
		}
	case map[string]any:
		for key, x := range v {
			if !slices.Contains(kubernetes[field], key) {
				m.t.Errorf("%s: %q is no field of %q, or one that is new here", m.file, key, field)
			}
			m.check(key, x)
		}
		if field == "containers" {
			m.container(v)
		}
		if v["containers"] != nil {
			grace, _ := v["terminationGracePeriodSeconds"].(uint64)
			if s, _ := v["securityContext"].(map[string]any); s["runAsNonRoot"] != true || grace < 10 {
				m.t.Errorf("%s: a pod with %v and %v s to stop", m.file, s, grace)
			}
		}
	}
}

func (m *manifest) container(c map[string]any) {
	m.containers++
	var args []string
	list, _ := c["args"].([]any)
	for _, a := range list {
		arg := fmt.Sprint(a)
		args = append(args, arg)
		if name, value, _ := strings.Cut(arg, "="); (name == "--key" || name == "--invitation" || name == "--data") && !strings.HasPrefix(value, "/secret/") {
			m.t.Errorf("%s: %s is no secret", m.file, arg)
		}
	}
	accepts(m.t, m.file, args)
	if s, _ := c["securityContext"].(map[string]any); s["readOnlyRootFilesystem"] != true || s["allowPrivilegeEscalation"] != false {
		m.t.Errorf("%s: a container with %v", m.file, s)
	}
}
