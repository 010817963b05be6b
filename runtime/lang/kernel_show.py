# Rich forms of a value, by MIME type. Part of kernel.py: run in its namespace, in the
# box. A form whose method raises is left out: the value itself is fine.
# Mustn't: import what the user has not.

METHODS = [
    ('text/html', '_repr_html_'), ('text/markdown', '_repr_markdown_'),
    ('image/svg+xml', '_repr_svg_'), ('image/png', '_repr_png_'),
    ('image/jpeg', '_repr_jpeg_'), ('application/pdf', '_repr_pdf_'),
    ('text/latex', '_repr_latex_'), ('application/json', '_repr_json_'),
    ('application/javascript', '_repr_javascript_'),
]
DATA = 'application/vnd.nsbox.data+json'
CHART = 'application/vnd.nsbox.chart+json'
FORMS_MAX = 24 << 20    # characters of all forms of one value
POINTS_MAX = 10000


def as_json(value):
    # Plain JSON or None: what _repr_json_ gives is not typed.
    try:
        text = dumps(value, allow_nan=False, default=str)
        value = loads(text) if len(text) < FORMS_MAX else None
        return None if is_deeper(value, 40) else value
    except (TypeError, ValueError, RecursionError):
        return None


def is_deeper(value, room):
    if isinstance(value, dict):
        value = value.values()
    elif not isinstance(value, list):
        return False
    return room < 1 or any(is_deeper(v, room - 1) for v in value)


def form_of(kind, data):
    if isinstance(data, tuple) and data:    # (data, metadata)
        data = data[0]
    if isinstance(data, (bytes, bytearray, memoryview)):
        return base64(bytes(data))
    if isinstance(data, str):
        return clean(data)
    return as_json(data) if kind.endswith('json') else None


def call_method(value, name, **args):
    method = getattr(type(value), name, None)
    if method is None or isinstance(value, type):
        return None
    try:
        return getattr(value, name)(**args)
    except Exception:
        return None


def bundle_of(value):
    bundle = call_method(value, '_repr_mimebundle_', include=None, exclude=None)
    if isinstance(bundle, tuple) and bundle:
        bundle = bundle[0]
    if not isinstance(bundle, dict):
        return {}
    return {str(k): form_of(str(k), v) for k, v in bundle.items()}


def rich_forms(value, text):
    """{MIME type: text, base64 of bytes, or JSON}; {} when there is only the text."""
    forms = bundle_of(value)
    for kind, name in METHODS:
        if kind not in forms:
            forms[kind] = form_of(kind, call_method(value, name))
    if is_a(value, 'pandas', 'DataFrame'):
        forms[DATA] = frame_data(value)
    if is_a(value, 'matplotlib.figure', 'Figure'):
        forms.update(figure_forms(value))
    elif 'image/png' in forms and is_a(value, 'PIL.Image', 'Image'):
        forms['image/png'] = base64(png_of(value))
    forms = {k: v for k, v in forms.items() if v is not None}
    forms.pop('text/plain', None)
    size = len(text)
    for kind in sorted(forms, key=lambda k: len(str(forms[k]))):
        size += len(str(forms[kind]))
        if size > FORMS_MAX:
            del forms[kind]
    return dict({'text/plain': text}, **forms) if forms else {}


def frame_data(frame):
    try:
        columns = frame.head(POINTS_MAX).to_dict(orient='list')
        return as_json({str(name): [None if is_missing(v) else v for v in values]
                        for name, values in columns.items()})
    except Exception:
        return None


def is_missing(value):
    # NaN, NaT and NA: none of them is equal to itself.
    if isinstance(value, float):
        return value != value or value in (INFINITY, -INFINITY)
    return type(value).__name__ in ('NaTType', 'NAType')


def figure_forms(figure):
    import io
    file = io.BytesIO()
    try:
        figure.savefig(file, format='png', bbox_inches='tight')
    except Exception:
        return {}
    return {'image/png': base64(file.getvalue()), CHART: chart_of(figure)}


def points(xs, ys):
    return [[to_plain(x), to_plain(y)] for x, y in list(zip(xs, ys))[:POINTS_MAX]]


def to_plain(x):
    x = x.item() if hasattr(x, 'item') else x
    return x if isinstance(x, (int, float, str)) and x == x and abs_is_finite(x) else str(x)


def abs_is_finite(x):
    return isinstance(x, str) or x not in (INFINITY, -INFINITY)


def describe_axes(axes):
    series = []
    for line in axes.get_lines():
        series.append({'kind': 'line', 'label': str(line.get_label()),
                       'points': points(line.get_xdata(), line.get_ydata())})
    for group in axes.collections:
        offsets = group.get_offsets() if hasattr(group, 'get_offsets') else []
        if len(offsets):
            series.append({'kind': 'scatter', 'label': str(group.get_label()),
                           'points': points(offsets[:, 0], offsets[:, 1])})
    for group in axes.containers:
        bars = [b for b in group if hasattr(b, 'get_height')]
        if bars:
            series.append({'kind': 'bar', 'label': str(group.get_label()),
                           'points': points([b.get_x() for b in bars],
                                            [b.get_height() for b in bars])})
    return {'title': axes.get_title(), 'x_label': axes.get_xlabel(),
            'y_label': axes.get_ylabel(), 'x_scale': axes.get_xscale(),
            'y_scale': axes.get_yscale(), 'series': series}


def chart_of(figure):
    try:
        return as_json({'axes': [describe_axes(a) for a in figure.axes]})
    except Exception:
        return None


def show(value):
    text = safe_repr(value)
    mime = rich_forms(value, text) or {'text/plain': text}
    flush_streams()
    ack = next_call()
    send({'id': now.id, 'event': 'display', 'mime': mime, 'ack': ack})
    inbox.wait(ack)     # what is printed next comes after it


def display(*values):
    """Show values in their richest form, before the cell ends."""
    refuse_child('display()')
    if now.id is None:
        raise RuntimeError('display() can be called only while a cell runs')
    for value in values:
        show(value)


def show_figures(last):
    # What pyplot has open at the end of a cell is shown, and closed, as notebooks do.
    pyplot = sys.modules.get('matplotlib.pyplot')
    numbers = getattr(pyplot, 'get_fignums', list)()
    for number in numbers:
        figure = pyplot.figure(number)
        if figure is not last and now.running:
            show(figure)
    if numbers:
        pyplot.close('all')


def show_pyplot(pyplot):
    # With the Agg backend show() only warns that it shows nothing.
    def show(*args, **kwargs):
        show_figures(None)

    pyplot.show = show
