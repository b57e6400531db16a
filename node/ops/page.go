package ops

import (
	"html/template"
	"net/http"

	"github.com/fedsim/fedsim/node/store"
)

// page is Status for a browser: no script, nothing from elsewhere, readable on a phone, light
// or dark as the browser likes it. It asks for itself again every ten seconds.
var page = template.Must(template.New("page").Funcs(template.FuncMap{"roundedUp": store.RoundedUp}).Parse(`<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="refresh" content="10">
<title>fednode: {{.Role}}</title>
<style>
:root { color-scheme: light dark; }
body { font: 1rem/1.5 system-ui, sans-serif; max-width: 60rem; margin: 0 auto; padding: 1rem; }
table { border-collapse: collapse; width: 100%; margin-bottom: 1.5rem; }
caption { text-align: left; font-weight: bold; padding: .5rem 0; }
th, td { text-align: left; padding: .25rem .75rem .25rem 0; border-bottom: 1px solid GrayText; vertical-align: top; overflow-wrap: anywhere; }
</style>
</head>
<body>
<h1>fednode: {{.Role}}</h1>
<table>
<caption>Now</caption>
<tr><th scope="row">Ready</th><td>{{if .Ready}}yes{{else}}no{{with .Trouble}}: {{.}}{{end}}{{end}}</td></tr>
<tr><th scope="row">Session</th><td>{{or .Session "none yet"}}</td></tr>
<tr><th scope="row">Round</th><td>{{.Round}}</td></tr>
<tr><th scope="row">Clients connected</th><td>{{.Connected}}</td></tr>
{{with .Last}}<tr><th scope="row">Last event</th><td>{{.Kind}} of the {{.Party}}{{with .Error}}: {{.}}{{end}}</td></tr>{{end}}
</table>
{{with .Rounds}}<table>
<caption>Rounds</caption>
<thead><tr><th scope="col">Round</th><th scope="col">Seconds</th><th scope="col">By stage, in seconds</th><th scope="col">Late</th><th scope="col">Outcome</th></tr></thead>
<tbody>
{{range .}}<tr><td>{{.Round}}</td><td>{{printf "%.2f" .Seconds}}</td><td>{{range $i, $s := .Stages}}{{if $i}}, {{end}}{{$s.Stage}} {{printf "%.2f" $s.Seconds}}{{end}}</td><td>{{.Lost}}</td><td>{{.Outcome}}</td></tr>
{{end}}</tbody>
</table>{{end}}
{{with .Absent}}<table>
<caption>Late or out</caption>
<thead><tr><th scope="col">Client</th><th scope="col">Times late</th><th scope="col">Last</th><th scope="col">Out</th></tr></thead>
<tbody>
{{range .}}<tr><td>{{.Party}}</td><td>{{.Late}}</td><td>{{with .Stage}}{{.}}, {{end}}round {{.Round}}</td><td>{{.Out}}</td></tr>
{{end}}</tbody>
</table>{{end}}
{{with .Complaints}}<table>
<caption>Complaints about shares that were dealt</caption>
<thead><tr><th scope="col">Client</th><th scope="col">Complains of others</th><th scope="col">Others complain of it</th><th scope="col">Last</th></tr></thead>
<tbody>
{{range .}}<tr><td>{{.Party}}</td><td>{{.By}}</td><td>{{.Against}}</td><td>round {{.Round}}</td></tr>
{{end}}</tbody>
</table>{{end}}
{{if eq .Role "client"}}<p>Complaints of others about a client of this process only the aggregator hears of.</p>{{end}}
{{range .Accounts}}<table>
<caption>{{or .Place "A client"}}</caption>
{{with .Sessions}}<thead><tr><th scope="col">Session</th><th scope="col">Since</th><th scope="col">Consented to</th><th scope="col">Rounds taken part in</th><th scope="col">ε spent</th></tr></thead>
{{end}}<tbody>
{{range .Sessions}}<tr><td>{{.Session}}, {{.Algorithm}}</td><td>{{.At.Format "2006-01-02 15:04"}}</td><td>{{.Terms}}</td><td>{{.Charged}} of {{.Rounds}}</td><td>{{roundedUp .Spent}}</td></tr>
{{end}}<tr><th scope="row">In all</th><td colspan="4">{{.InAll}}</td></tr>
</tbody>
</table>{{end}}
{{with .AccountsLeftOut}}<p>And {{.}} more clients in this process: <code>fednode status --state</code> reads the state of each, once it is stopped.</p>{{end}}
</body>
</html>
`))

// show writes the page.
func (m *Monitor) show(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'")
	_ = page.Execute(w, m.Status()) // who has gone does not see it
}
