/* xtrain models: the networks that there are by name. */
#include "cli/commands.h"
#include "cli/json/result.h"
#include "cli/report.h"
#include "models/registry.h"

enum { IMAGE_CLASSES = 1000, SYMBOLS = 68 };

static size_t count_parameters(const struct xt_net *net)
{
    size_t count = 0;
    for (size_t i = 0; i < net->param_count; i++) {
        enum xt_param_role role = net->params[i].role;
        if (role != XT_PARAM_BN_MEAN && role != XT_PARAM_BN_VAR && role != XT_PARAM_BN_COUNT)
            count += xt_net_param_elements(&net->params[i]);
    }
    return count;
}

static double count_flops(const struct xt_net *net)
{
    double flops = 0;
    for (size_t i = 0; i < net->node_count; i++)
        flops += xt_node_flops(net->nodes[i]);
    return flops;
}

static enum xt_status add_model(struct xt_report *models, const struct xt_model_info *model,
                                struct xt_err *err)
{
    int classes = model->time_steps ? SYMBOLS : IMAGE_CLASSES;
    const struct xt_model_options options = {
        .classes = classes, .height = model->height, .width = model->width};
    struct xt_net *net = NULL;
    enum xt_status status = xt_model_net(model, &options, &net, err);
    if (status)
        return status;
    struct xt_report *row = xt_report_group(models, NULL);
    xt_report_add(row, "name", "network", "%s", model->name);
    xt_report_add(row, "parameters", "parameters", "%zu", count_parameters(net));
    xt_report_scaled(row, "flops", "GFLOP", 1e-9, "%.2f", count_flops(net));
    xt_report_add(row, "height", "height", "%d", model->height);
    xt_report_add(row, "width", "width", "%d", model->width);
    xt_report_add(row, "classes", "classes", "%d", classes);
    xt_report_add(row, "title", "description", "%s", model->title);
    xt_net_destroy(net);
    return XT_OK;
}

enum xt_status xt_cmd_models(struct xt_options *options, struct xt_err *err)
{
    (void)options;
    struct xt_report *report = xt_report_create();
    struct xt_report *models = xt_report_table(report, "models");
    enum xt_status status = XT_OK;
    const struct xt_model_info *model = NULL;
    for (size_t i = 0; (model = xt_model_at(i)) && !status; i++)
        status = add_model(models, model, err);
    return xt_result_put_unless(status, report, err);
}
