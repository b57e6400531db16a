package ops

import (
	"html/template"
	"net/http"

	"github.com/fedsim/fedsim/node/store"
)

// page shows Status in a browser: without a script, with nothing from elsewhere, light or dark as the browser
// asks. It does not load itself again, which would take readers away from their place. A link does so.
var page = template.Must(template.New("page").Funcs(template.FuncMap{"roundedUp": store.RoundedUp}).Parse(`<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>fednode: {{.Role}}</title>
<style>
:root { color-scheme: light dark; --back: #ffffff; --text: #1b1b1b; --soft: #555555; --line: #8a8a8a; --link: #00528a; }
@media (prefers-color-scheme: dark) { :root { --back: #14171a; --text: #ececec; --soft: #b4b4b4; --line: #7d858c; --link: #7cc4ff; } }
body { font: 1rem/1.5 system-ui, sans-serif; max-width: 60rem; margin: 0 auto; padding: 1rem; background: var(--back); color: var(--text); }
h1 { font-size: 1.5rem; line-height: 1.25; }
a { color: var(--link); }
.soft { color: var(--soft); }
.scroll { overflow-x: auto; margin-bottom: 1.5rem; }
.scroll:focus-visible, a:focus-visible { outline: 3px solid var(--link); outline-offset: 2px; }
table { border-collapse: collapse; min-width: 100%; }
caption { text-align: left; font-weight: bold; padding: 0.5rem 0; max-width: calc(100vw - 2rem); }
th, td { text-align: left; padding: 0.25rem 0.75rem 0.25rem 0; border-bottom: 1px solid var(--line); vertical-align: top; }
thead th, .scroll td { white-space: nowrap; }
.scroll td:first-child, .scroll td.stages { white-space: normal; overflow-wrap: anywhere; min-width: 6rem; }
.now td { overflow-wrap: anywhere; }
@media print { :root { --back: #ffffff; --text: #000000; --soft: #333333; --line: #888888; } .screen { display: none; } body { max-width: none; padding: 0; } tr { break-inside: avoid; } .scroll { overflow: visible; } .scroll td, thead th { white-space: normal; overflow-wrap: anywhere; } }
</style>
</head>
<body>
<main>
<h1>fednode: {{.Role}}</h1>
<p><span class="soft">As of {{.Now}}.</span> <a class="screen" href="/">Refresh</a></p>
<table class="now">
<caption>Now</caption>
<tr><th scope="row">Ready</th><td>{{if .Ready}}yes{{else}}no{{with .Trouble}}: {{.}}{{end}}{{end}}</td></tr>
<tr><th scope="row">Session</th><td>{{or .Session "none yet"}}</td></tr>
<tr><th scope="row">Round</th><td>{{.Round}}</td></tr>
<tr><th scope="row">Clients connected</th><td>{{.Connected}}</td></tr>
{{with .Last}}<tr><th scope="row">Last event</th><td>{{.Kind}} of the {{.Party}}{{with .Error}}: {{.}}{{end}}</td></tr>{{end}}
</table>
{{with .Rounds}}<div class="scroll" tabindex="0" role="region" aria-label="Rounds"><table>
<caption>Rounds</caption>
<thead><tr><th scope="col">Round</th><th scope="col">Seconds</th><th scope="col">By stage, in seconds</th><th scope="col">Late</th><th scope="col">Outcome</th></tr></thead>
<tbody>
{{range .}}<tr><td>{{.Round}}</td><td>{{printf "%.2f" .Seconds}}</td><td class="stages">{{range $i, $s := .Stages}}{{if $i}}, {{end}}{{$s.Stage}} {{printf "%.2f" $s.Seconds}}{{end}}</td><td>{{.Lost}}</td><td>{{.Outcome}}</td></tr>
{{end}}</tbody>
</table></div>{{end}}
{{with .Absent}}<div class="scroll" tabindex="0" role="region" aria-label="Late or out"><table>
<caption>Late or out</caption>
<thead><tr><th scope="col">Client</th><th scope="col">Times late</th><th scope="col">Last</th><th scope="col">Out</th></tr></thead>
<tbody>
{{range .}}<tr><td>{{.Party}}</td><td>{{.Late}}</td><td>{{with .Stage}}{{.}}, {{end}}round {{.Round}}</td><td>{{.Out}}</td></tr>
{{end}}</tbody>
</table></div>{{end}}
{{with .Complaints}}<div class="scroll" tabindex="0" role="region" aria-label="Complaints"><table>
<caption>Complaints about shares that were dealt</caption>
<thead><tr><th scope="col">Client</th><th scope="col">Complains of others</th><th scope="col">Others complain of it</th><th scope="col">Last</th></tr></thead>
<tbody>
{{range .}}<tr><td>{{.Party}}</td><td>{{.By}}</td><td>{{.Against}}</td><td>round {{.Round}}</td></tr>
{{end}}</tbody>
</table></div>{{end}}
{{if eq .Role "client"}}<p>Only the aggregator learns which clients complain about a client of this process.</p>{{end}}
{{range $i, $a := .Accounts}}<div class="scroll" tabindex="0" role="region" aria-label="Account {{$i}}: {{or .Place "a client"}}"><table>
<caption>{{or .Place "A client"}}</caption>
{{with .Sessions}}<thead><tr><th scope="col">Session</th><th scope="col">Since</th><th scope="col">Consented to</th><th scope="col">Rounds taken part in</th><th scope="col">ε spent</th></tr></thead>
{{end}}<tbody>
{{range .Sessions}}<tr><td>{{.Session}}, {{.Algorithm}}</td><td>{{.At.Format "2006-01-02 15:04"}}</td><td>{{.Terms}}</td><td>{{.Charged}} of {{.Rounds}}</td><td>{{roundedUp .Spent}}</td></tr>
{{end}}</tbody>
</table></div>
<p><strong>In all:</strong> {{.InAll}}</p>{{end}}
{{with .AccountsLeftOut}}<p>And {{.}} more clients in this process: <code>fednode status --state</code> reads the state of each, once it is stopped.</p>{{end}}
</main>
</body>
</html>
`))

func (m *Monitor) show(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'")
	w.Header().Set("Cache-Control", "no-store") // the link Refresh shows what is there now
	_ = page.Execute(w, struct {
		Status
		Now string
	}{m.Status(), m.now().UTC().Format("2006-01-02 15:04:05 UTC")}) // who has gone does not see it
}
