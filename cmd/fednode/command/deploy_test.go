package command

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/fedsim/fedsim/cmd/fednode/internal/party"
	"github.com/fedsim/fedsim/internal/cli"
	"github.com/fedsim/fedsim/internal/effort"
	"github.com/fedsim/fedsim/internal/testutil"
	"github.com/fedsim/fedsim/lab/verify"
)

const deploy = "../../../deploy"

// accepts says whether fednode knows the command, its flags and their values.
func accepts(t *testing.T, where string, args []string) {
	t.Helper()
	parser, err := program.Parser(new(commands), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err = parser.Parse(args); err != nil {
		t.Errorf("%s: fednode %s: %v", where, strings.Join(args, " "), err)
	}
}

// Every call of fednode in published texts is a call that fednode accepts.
func TestPublishedCommandsParse(t *testing.T) {
	call := regexp.MustCompile(`(?m)(?:^|[$=(!] ?|exec )(?:/usr/local/bin/|")?fednode"? ([a-z].*)$`)
	for file, least := range map[string]int{deploy + "/demo.sh": 7, threeMachines: 10, "../../../node/operating.md": 6, deploy + "/compose.yaml": 2,
		deploy + "/systemd/fednode-aggregator.service": 1, deploy + "/systemd/fednode-server.service": 1, deploy + "/systemd/fednode-client@.service": 1,
		deploy + "/systemd/fednode-session.service": 1} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		whole := strings.ReplaceAll(string(text), "\\\n", " ")
		whole = regexp.MustCompile(`(?m)^\s+`).ReplaceAllString(whole, "")
		// Logs name the next command in a field, on its own or in a sentence.
		next := regexp.MustCompile(`next="fednode ([^"]*)"`)
		for _, m := range next.FindAllStringSubmatch(whole, -1) {
			if strings.Contains(m[1], " --") {
				accepts(t, file, words(m[1]))
			}
		}
		whole = next.ReplaceAllString(whole, "")
		found := call.FindAllStringSubmatch(whole, -1)
		if len(found) < least {
			t.Errorf("%s: %d calls of fednode, want %d at least", file, len(found), least)
		}
		for _, m := range found {
			accepts(t, file, words(m[1]))
		}
	}
}

// words splits a command as a shell does, as far as the files need it: up to a redirection or pipe.
func words(line string) []string {
	line = regexp.MustCompile(`(\s\|\s|\s[12]?>|;|\s+#\s|\s\.\.\.|\)"?$).*$|\)$`).ReplaceAllString(line, "")
	var out []string
	for _, w := range regexp.MustCompile(`(?:[^\s"]|"[^"]*")+`).FindAllString(line, -1) {
		out = append(out, strings.ReplaceAll(w, `"`, ""))
	}
	return slices.DeleteFunc(out, func(w string) bool { return w == "&" })
}

// unit is a systemd unit: what each section sets, in order of the file.
type unit map[string]map[string][]string

func parseUnit(t *testing.T, path string) unit {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	u, section := make(unit), ""
	for line := range strings.Lines(strings.ReplaceAll(string(text), "\\\n", " ")) {
		line = strings.TrimSpace(line)
		switch key, value, ok := strings.Cut(line, "="); {
		case line == "" || line[0] == '#':
		case line[0] == '[':
			section = line
			u[section] = make(map[string][]string)
		case !ok || u[section] == nil:
			t.Errorf("%s: %q is no setting of a section", path, line)
		default:
			u[section][key] = append(u[section][key], value)
		}
	}
	return u
}

// settings lists the settings of systemd.unit(5), .service(5), .exec(5) and .kill(5) that units
// here may use.
var settings = map[string][]string{
	"[Unit]":  {"Description", "Documentation", "Wants", "After", "Conflicts"},
	"[Timer]": {"OnCalendar", "Persistent", "RandomizedDelaySec"},
	"[Service]": {"Type", "WatchdogSec", "EnvironmentFile", "ExecStart", "ExecReload", "LoadCredential", "StateDirectory", "StateDirectoryMode", "KillSignal", "TimeoutStopSec",
		"SuccessExitStatus", "Restart", "RestartSec", "RestartPreventExitStatus", "LimitNOFILE", "DynamicUser", "UMask", "NoNewPrivileges",
		"CapabilityBoundingSet", "AmbientCapabilities", "ProtectSystem", "ProtectHome", "PrivateTmp", "PrivateDevices", "PrivateUsers",
		"ProtectHostname", "ProtectClock", "ProtectKernelTunables", "ProtectKernelModules", "ProtectKernelLogs", "ProtectControlGroups",
		"ProtectProc", "ProcSubset", "RemoveIPC", "LockPersonality", "MemoryDenyWriteExecute", "RestrictNamespaces", "RestrictRealtime",
		"RestrictSUIDSGID", "RestrictAddressFamilies", "SystemCallArchitectures", "SystemCallFilter", "SystemCallErrorNumber"},
	"[Install]": {"WantedBy"},
}

// Units have no mistyped setting, keep what a service cannot do without, and hand keys over as
// credentials: no secret is in /etc/fednode.
func TestUnits(t *testing.T) {
	files, err := filepath.Glob(deploy + "/systemd/*")
	if err != nil || len(files) != 6 {
		t.Fatalf("units %q, %v; want 6", files, err)
	}
	for _, file := range files {
		u := parseUnit(t, file)
		for section, keys := range u {
			for key := range keys {
				if !slices.Contains(settings[section], key) {
					t.Errorf("%s: %s in %s is not a setting of systemd, or one that is new here", file, key, section)
				}
			}
		}
		service := u["[Service]"]
		if strings.HasSuffix(file, ".timer") {
			if started := strings.TrimSuffix(file, "timer") + "service"; !slices.Contains(files, started) || u["[Timer]"]["OnCalendar"] == nil {
				t.Errorf("%s starts no unit", file)
			}
			continue
		}
		restart := "on-failure"
		if strings.Contains(file, "session") {
			restart = "on-abnormal" // a failure may be the end of a session
		}
		for key, want := range map[string]string{"DynamicUser": "yes", "NoNewPrivileges": "yes", "ProtectSystem": "strict", "MemoryDenyWriteExecute": "yes",
			"CapabilityBoundingSet": "", "RestrictAddressFamilies": "AF_INET AF_INET6 AF_NETLINK AF_UNIX", "Type": "notify", "WatchdogSec": "2min", "SystemCallFilter": "@system-service,~@privileged @resources",
			"KillSignal": "SIGTERM", "Restart": restart, "RestartPreventExitStatus": strconv.Itoa(cli.Misuse)} {
			if got := strings.Join(service[key], ","); got != want || service[key] == nil {
				t.Errorf("%s: %s=%s, want %s", file, key, got, want)
			}
		}
		// A party that is stopped ends with cli.Interrupted, an aggregator or a relay with 0.
		stopped := strings.Join(service["SuccessExitStatus"], ",")
		relay := strings.Contains(file, "relay")
		if aggregator := relay || strings.Contains(file, "aggregator"); (stopped == strconv.Itoa(cli.Interrupted)) == aggregator {
			t.Errorf("%s: SuccessExitStatus=%s", file, stopped)
		}
		start := strings.Join(service["ExecStart"], " ")
		for _, flag := range []string{"--key ", "--invitation "} {
			if _, value, ok := strings.Cut(start, flag); ok && !strings.HasPrefix(value, "%d/") {
				t.Errorf("%s: %s is no credential", file, flag)
			}
		}
		if state := service["StateDirectory"]; relay { // which keeps nothing
			if state != nil || strings.Contains(start, "--state") {
				t.Errorf("%s: StateDirectory %q", file, state)
			}
		} else if mode := service["StateDirectoryMode"]; len(state) != 1 || len(mode) != 1 || mode[0] != "0700" || !strings.Contains(start, "--state %S/"+state[0]) {
			t.Errorf("%s: StateDirectory %q is not the --state of %s", file, state, start)
		}
	}
}

// systemd itself, where there is one, finds nothing wrong, and gives an exposure below 1.5 of 10.
func TestUnitsPassSystemdAnalyze(t *testing.T) {
	effort.NotShort(t, "systemd takes a quarter of a second")
	out, err := exec.Command("systemd-analyze", "--version").Output()
	var version int
	if fields := strings.Fields(string(out)); err == nil && len(fields) > 1 {
		version, _ = strconv.Atoi(fields[1])
	}
	if version < 250 {
		t.Skip("no systemd-analyze that checks files")
	}
	dir := t.TempDir()
	self, err := os.Executable() // which exists, as /usr/local/bin/fednode need not
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"fednode-aggregator.service", "fednode-server.service", "fednode-client@.service", "fednode-relay.service", "fednode-session.service", "fednode-session.timer"} {
		text, err := os.ReadFile(deploy + "/systemd/" + name)
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, strings.Replace(name, "@", "@0", 1))
		if err = os.WriteFile(path, []byte(strings.ReplaceAll(string(text), "/usr/local/bin/fednode", self)), 0o600); err != nil {
			t.Fatal(err)
		}
		out, err := exec.Command("systemd-analyze", "verify", "--man=no", path).CombinedOutput()
		if err != nil || strings.Contains(string(out), filepath.Base(path)) {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
		if strings.HasSuffix(name, ".timer") {
			continue
		}
		if out, err = exec.Command("systemd-analyze", "security", "--offline=true", "--threshold=15", path).CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
	}
}

// The timer's unit runs three sessions in a row after the first, each from the model of the last, by the unit's own command. A
// repetition from the owners' file compares with the last model.
func TestTimersSessions(t *testing.T) {
	long(t)
	m := newMachine(t)
	lead, serve, _, _ := m.federation(20, 1)
	aggregator := m.start(lead...)
	clients := m.start("client", "--data", demo+"/ratings.csv", "--users", "0..19", "--invitations", m.path("invitations"), "--state", m.path("together"), "--max-epsilon", "inf", "--sessions", "4")
	unit, err := os.ReadFile("../../../deploy/systemd/fednode-session.service")
	if err != nil {
		t.Fatal(err)
	}
	_, call, _ := strings.Cut(strings.ReplaceAll(string(unit), "\\\n", " "), "ExecStart=/usr/local/bin/fednode ")
	call, _, _ = strings.Cut(call, "\n")
	call = strings.NewReplacer("/etc/fednode/experiment.yaml", serve[1], "/etc/fednode/items", demo+"/items", "%d/invitation", m.path("gone"), "%S/fednode-server", m.path("server"),
		"127.0.0.1:9465", "127.0.0.1:"+testutil.Port(t), "/etc/fednode/revocations.json", m.path("invitations/revocations.json")).Replace(call)
	m.run(cli.Done, serve...)
	var models []string
	for n := range 4 {
		if n > 0 {
			m.run(cli.Done, strings.Fields(call)...)
		}
		model, wrong := filepath.EvalSymlinks(m.path("server/current"))
		if wrong != nil || slices.Contains(models, model) {
			t.Fatalf("session %d left %s: %v", n, model, wrong)
		}
		models = append(models, model)
	}
	if code := clients.wait(); code != cli.Done {
		t.Errorf("clients: exit code %d\n%s", code, clients.log.String())
	}
	aggregator.signal(syscall.SIGTERM)
	aggregator.wait()
	var s summary
	if err = json.Unmarshal([]byte(readFile(t, models[3], party.SummaryFile)), &s); err != nil || s.AllSessions == nil || s.AllSessions.Sessions != 4 {
		t.Errorf("%v: %+v", err, s.AllSessions)
	}
	r, err := verify.Folder(t.Context(), models[3], verify.Options{Again: true, Owners: []string{demo + "/ratings.csv"}, Start: models[2], Repetitions: 19})
	if err != nil {
		t.Fatal(err)
	}
	if last := r.Checks[len(r.Checks)-1]; last.Subject != "model" || !strings.Contains(last.Text, "Of 19 repetitions") { // one in 20 lies outside of them
		t.Errorf("%+v", r.Checks)
	}
}
