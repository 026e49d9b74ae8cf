"""What MkDocs calls: the search of the theme is a dialog without a name, which it gets."""


def on_post_page(output, page, config):
    return output.replace('data-md-component="search" role="dialog"',
                          'data-md-component="search" role="dialog" aria-label="Search"')
