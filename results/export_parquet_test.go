package results_test

import _ "github.com/fedsim/fedsim/results/export/parquet" // tests write this format
