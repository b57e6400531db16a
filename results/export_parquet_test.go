package results_test

import _ "github.com/fedsim/fedsim/internal/export/parquet" // tests write this format
