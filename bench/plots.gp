# Draws one figure of bench/scale.sh, which calls this with
#
#   what   append, tail, view, open or bytes
#   dir    a folder with 1.points, 2.points, ... (number of messages and value a line, in
#          the order of its list `plotted`) and labels (limits, ends of lines, places of
#          their names)
#   out    the file to write: .svg, or .png to look at
#
# Both axes are logarithmic. Names stand beside the lines, in their colours; these are
# told apart by people who do not see red and green alike (the palette of Okabe and Ito).
# Left out: the spread of the runs; it is in scale.jsonl.

if (out[strlen(out) - 3:] eq ".png") {
    set terminal pngcairo size 1040,600 enhanced font 'DejaVu Sans,13' \
        background rgb 'white'
} else {
    set terminal svg size 1040,600 enhanced font 'sans-serif,16' \
        background rgb 'white'
}
set output out

array Names = ['msgstore', 'LMDB, clustered', 'LevelDB', 'JSON lines', 'SQLite, tuned', \
    'Python as written', 'floor: bare map']
array Colours = ['#0072B2', '#009E73', '#E69F00', '#CC79A7', '#D55E00', '#222222', \
    '#777777']
array Points = [7, 5, 9, 13, 11, 15, 1]

title = what eq 'append' ? 'Append one message' : \
    what eq 'tail' ? 'Read the newest 20 messages of a conversation' : \
    what eq 'view' ? 'Read a whole conversation' : \
    what eq 'open' ? 'Open a store, to the first answer' : 'Disk space'
below = what eq 'append' ? 'time of a message, without sync' : \
    what eq 'tail' ? \
        'median time of a query (at 1k and 10k many conversations have fewer)' : \
    what eq 'view' ? 'time of a message in it' : \
    what eq 'open' ? 'after a clean close, files in the page cache' : \
    'bytes of a message, all files, index included'
set label 100 '{/:Bold*1.2 '.title.'}' at screen 0.02, 0.95 left
set label 101 below.'; lower is better' at screen 0.02, 0.905 left textcolor rgb '#555555'
set tmargin at screen 0.86

load dir.'/labels'

set border 3 lc rgb '#888888'
set tics nomirror textcolor rgb '#333333'
set grid xtics ytics lc rgb '#E4E4E4' lt 1
set logscale xy
set xrange [800:1.25 * largest]
set yrange [low:high]
set xlabel 'messages in the store' textcolor rgb '#333333'
set xtics ('1k' 1e3, '10k' 1e4, '100k' 1e5, '1M' 1e6, '10M' 1e7)
if (what eq 'bytes') {
    set ytics (500, 600, 700, 800, 900, 1000, 1200, 1400, 1700, 2000, 3000, 5000, \
        '10k' 1e4, '20k' 2e4, '50k' 5e4, '100k' 1e5, '1M' 1e6)
} else {
    set ytics ('1 ns' 1, '10 ns' 10, '100 ns' 1e2, '1 us' 1e3, '10 us' 1e4, \
        '100 us' 1e5, '1 ms' 1e6, '10 ms' 1e7, '100 ms' 1e8, '1 s' 1e9, '10 s' 1e10)
}
set rmargin 21
unset key

# A name in the margin, and a thin line from the end of its line to it.
do for [i = 1:|Names|] {
    if (X[i] > 0) {
        name = i == 1 ? '{/:Bold '.Names[i].'}' : Names[i]
        set label i name at graph 1.035, first L[i] left textcolor rgb Colours[i] front
        set arrow i from first X[i], first Y[i] to graph 1.028, first L[i] nohead \
            lc rgb '#BBBBBB' lw 1 dt 3 back
    }
}

do for [i = 1:|Names|] {
    set style line i lc rgb Colours[i] lw (i == 1 ? 4 : 2) pt Points[i] \
        ps (i == 1 ? 1.1 : 0.9)
}
set style line |Names| dt 2
lines = ''
do for [i = |Names|:1:-1] {
    if (X[i] > 0) {
        lines = lines.(lines eq '' ? '' : ', ').sprintf("'%s/%d.points' ", dir, i). \
            sprintf("using 1:2 with linespoints ls %d notitle", i)
    }
}
eval 'plot '.lines
