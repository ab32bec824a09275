/* The loss of classes, with mixup labels, against reference sums. */
#include <math.h>

#include "support.h"
#include "train/losses/loss.h"

enum { ROWS = 5, CLASSES = 4 };

static const double smoothing = 0.1;

static double plain_loss(const struct xt_batch *batch, const float *logits, double smooth)
{
    double total = 0;
    for (int row = 0; row < ROWS; row++) {
        struct xt_mix mix = xt_mixup_row(&batch->mixup, row);
        double target[CLASSES] = {0};
        target[batch->labels[row * XT_LABEL_MAX]] += (double)mix.own / 128;
        target[batch->labels[mix.other * XT_LABEL_MAX]] += 1 - (double)mix.own / 128;
        double sum = 0;
        for (int k = 0; k < CLASSES; k++)
            sum += exp((double)logits[row * CLASSES + k]);
        for (int k = 0; k < CLASSES; k++)
            total -= ((1 - smooth) * target[k] + smooth / CLASSES) *
                     ((double)logits[row * CLASSES + k] - log(sum));
    }
    return total / ROWS;
}

static void labels_are_mixed_as_the_pixels_are(void **state)
{
    (void)state;
    struct xt_network network = {.task = XT_TASK_CLASSES, .batch = ROWS, .classes = CLASSES};
    struct xt_loss *trained_for = NULL;
    struct xt_err err;
    assert_int_equal(xt_loss_create(&trained_for, &network, smoothing, &err), XT_OK);
    int labels[ROWS * XT_LABEL_MAX] = {0};
    int lengths[ROWS];
    float logits[ROWS * CLASSES];
    float grad[ROWS * CLASSES];
    for (int row = 0; row < ROWS; row++) {
        labels[row * XT_LABEL_MAX] = row * 3 % CLASSES;
        lengths[row] = 1;
    }
    for (int i = 0; i < ROWS * CLASSES; i++)
        logits[i] = (float)(i * 7 % 11) / 4 - 1;
    struct xt_batch batch = {.count = ROWS, .labels = labels, .label_lengths = lengths};
    batch.mixup = (struct xt_mixup){.alpha = 1, .seed = 3, .step = 5, .count = ROWS};
    double loss = xt_loss_mean(trained_for, &batch, logits, grad);
    assert_true(fabs(loss - plain_loss(&batch, logits, smoothing)) < 1e-6);
    for (int i = 0; i < ROWS * CLASSES; i++) {
        const float step = 1e-2f;
        float old = logits[i];
        logits[i] = old + step;
        double above = plain_loss(&batch, logits, smoothing);
        logits[i] = old - step;
        double below = plain_loss(&batch, logits, smoothing);
        logits[i] = old;
        assert_true(fabs((double)grad[i] - (above - below) / (2 * (double)step)) < 1e-5);
    }
    batch.mixup = (struct xt_mixup){0};
    loss = xt_loss_mean(trained_for, &batch, logits, grad);
    assert_true(fabs(loss - plain_loss(&batch, logits, smoothing)) < 1e-6);
    xt_loss_destroy(trained_for);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(labels_are_mixed_as_the_pixels_are),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
